"""Sitemaps (sitemaps.org): the pages that a site lists (pure)."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from xml.etree import ElementTree

MAX_BYTES = 50 * 1024 * 1024
"""Unpacked, by the protocol."""

_ROOT = re.compile(rb"<(?:\w+:)?(urlset|sitemapindex)[\s>]")


class Unreadable(Exception):
    """Not a sitemap, damaged, or larger than one may be."""


@dataclass(frozen=True, slots=True)
class Sitemap:
    """What one file lists: addresses of pages, or of further sitemaps."""

    pages: tuple[str, ...] = ()
    sitemaps: tuple[str, ...] = ()


def is_sitemap(data: bytes) -> bool:
    """Whether this is one, packed with gzip or not."""
    head = data[:2_000]
    if head.startswith(b"\x1f\x8b"):
        try:
            head = zlib.decompressobj(31).decompress(data[:20_000], 4_000)
        except zlib.error:
            return False
    return _ROOT.search(head) is not None


def read_sitemap(data: bytes) -> Sitemap:
    """The addresses in a sitemap or an index of sitemaps, each once, in order.

    Raises:
        Unreadable: says why.
    """
    if data.startswith(b"\x1f\x8b"):
        data = _unpacked(data)
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise Unreadable("a document type is not allowed")
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise Unreadable(str(error)) from error
    found = dict.fromkeys(
        (loc.text or "").strip()
        for item in root
        if _local(item.tag) in ("url", "sitemap")
        for loc in item
        if _local(loc.tag) == "loc"
    )
    found.pop("", None)
    return (
        Sitemap(sitemaps=tuple(found)) if _local(root.tag) == "sitemapindex" else Sitemap(pages=tuple(found))
    )


def _unpacked(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(31)
    try:
        plain = unpacker.decompress(data, MAX_BYTES + 1)
    except zlib.error as error:
        raise Unreadable(str(error)) from error
    if len(plain) > MAX_BYTES or not unpacker.eof:
        raise Unreadable("it is cut off, or unpacks to more than a sitemap may have")
    return plain


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
