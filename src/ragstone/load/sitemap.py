"""Sitemaps (sitemaps.org): the pages that a site lists (pure)."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

MAX_BYTES = 50 * 1024 * 1024
"""Unpacked, by the protocol."""

_DEPTH = 100
"""Elements inside one another; those of extensions need less than ten."""

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
    locations = _Locations()
    parser = ElementTree.XMLParser(target=locations)
    try:
        parser.feed(data)
        parser.close()
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise Unreadable(str(error)) from error
    found = tuple(dict.fromkeys(filter(None, locations.found)))
    return Sitemap(sitemaps=found) if locations.root == "sitemapindex" else Sitemap(pages=found)


class _Locations:
    """What a parser reports to: keeps addresses only, for the tree of a small bomb fills gigabytes."""

    def __init__(self) -> None:
        self.root = ""
        self.found: list[str] = []
        self._path: list[str] = []
        self._text: list[str] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        del attributes
        if len(self._path) >= _DEPTH:
            raise Unreadable("its elements are nested too deep")
        self.root = self.root or _local(tag)
        self._path.append(_local(tag))
        self._text.clear()

    def data(self, text: str) -> None:
        if self._at_location():
            self._text.append(text)

    def end(self, tag: str) -> None:
        del tag
        if self._at_location():
            self.found.append("".join(self._text).strip())
        self._path.pop()

    def doctype(self, name: str, public_id: str | None, system: str | None) -> None:
        del name, public_id, system
        raise Unreadable("a document type is not allowed")

    def close(self) -> None:
        pass

    def _at_location(self) -> bool:
        return len(self._path) == 3 and self._path[2] == "loc" and self._path[1] in ("url", "sitemap")


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
