"""FictionBook (FB2): the text of a book with the titles of its parts as headings."""

from __future__ import annotations

from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from ragstone.errors import CorruptContent
from ragstone.parse.decode import Decoded, tidy_characters
from ragstone.parse.outline import Outline, document, table
from ragstone.parse.package import child, local
from ragstone.parse.text import damage
from ragstone.types import Blob, Document

MEDIA_TYPE = "application/x-fictionbook+xml"
MAX_DEPTH = 100


def is_fiction(text: str) -> bool:
    return "<FictionBook" in text[:2000]


def parse_fiction(blob: Blob, decoded: Decoded) -> Document:
    """The bodies of a book in order; its annotation first, its pictures left out.

    Raises:
        CorruptContent: not well-formed, or it declares entities.
    """
    text = decoded.text.lstrip()
    try:
        if "<!DOCTYPE" in text[:4096] or "<!ENTITY" in text:
            raise ValueError("its XML declares entities")
        root = ElementTree.fromstring(text[text.index("<FictionBook") :])
    except (ElementTree.ParseError, ValueError) as error:
        raise CorruptContent("parse.corrupt", name=blob.name, found="FB2", reason=str(error)) from error
    about = child(root, "description", "title-info")
    outline = Outline()
    if (annotation := child(about, "annotation")) is not None:
        _write(outline, annotation, 1)
    for body in root:
        if local(body) == "body":
            _write(outline, body, 1)
    title = _text(child(about, "book-title"))
    author = child(about, "author")
    parts = [_text(child(author, name)) for name in ("first-name", "middle-name", "last-name")]
    name = " ".join(part for part in parts if part) or _text(child(author, "nickname"))
    return document(
        blob,
        outline.text,
        media_type=MEDIA_TYPE,
        title=title,
        headings=outline.headings,
        metadata={"author": name} if name else {},
        warnings=damage(blob, decoded),
    )


def _write(outline: Outline, part: Element, level: int) -> None:
    """A body or section; a section nested beyond `MAX_DEPTH` becomes one paragraph."""
    for item in part:
        tag = local(item)
        if tag == "title":
            outline.heading(min(level, 6), _text(item))
        elif tag in ("section", "body", "cite", "epigraph", "poem", "stanza", "annotation"):
            if level > MAX_DEPTH:
                outline.block(_text(item))
            else:
                _write(outline, item, level + 1)
        elif tag == "table":
            outline.block(table([[_text(cell) for cell in row] for row in item if local(row) == "tr"]))
        elif tag == "subtitle":
            outline.block(f"**{_text(item)}**" if _text(item) else "")
        elif tag not in ("image", "binary"):
            outline.block(_text(item), gap="\n" if tag == "v" and item is not part[0] else "\n\n")


def _text(element: Element | None) -> str:
    if element is None:
        return ""
    blocks = [item for item in element if local(item) in ("p", "v", "title", "section", "stanza")]
    if blocks:  # paragraphs often stand without white space between them
        return " ".join(filter(None, map(_text, element)))
    return tidy_characters(" ".join("".join(element.itertext()).split()))
