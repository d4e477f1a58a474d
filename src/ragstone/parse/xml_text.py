"""XML as text: every value with the names of its elements, through the same blocks as JSON.

Entities that a file declares are never expanded beyond short plain text, and nothing is
fetched: no bomb and no other file gets in.
"""

from __future__ import annotations

import html
import html.entities
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.parsers import expat

from ragstone.parse.decode import Decoded, tidy_characters
from ragstone.parse.keyed import MAX_DEPTH, Tree, write_tree
from ragstone.parse.outline import Outline, document
from ragstone.parse.text import damage, parse_text
from ragstone.types import Blob, Document, Remark

NAMES = frozenset({"xml", "xsd", "xsl", "xslt", "rss", "atom", "rdf", "svg", "kml", "gpx", "wsdl", "plist"})

_ROOT = re.compile(r"\s*(<\?xml\b|<!DOCTYPE\b|<!--|<[A-Za-z_])")
_MARKUP = re.compile(
    r"</?(?:p|div|br|a|b|i|em|strong|span|ul|ol|li|img|h[1-6]|table|td|tr|pre|code)\b[^<>]*>", re.I
)
_ENTITY = re.compile(r"&([A-Za-z][\w.-]{0,63});")
_ESCAPED_ENTITY = re.compile(r"&(#\d{1,7}|#x[0-9A-Fa-f]{1,6}|[A-Za-z]\w{1,31});")


def parse_xml(blob: Blob, decoded: Decoded, *, named: bool) -> Document | None:
    """The document, or None where the text is no XML. `named`: its file name says that it is.

    What is named so and is not well-formed stays as it is written, with a remark.
    """
    text = decoded.text.lstrip()
    if not _ROOT.match(text) or not (named or text.startswith("<?xml") or may_be(blob)):
        return None
    reader = _Reader()
    try:
        root = reader.read(text)
    except expat.ExpatError as error:
        if not named and not text.startswith("<?xml"):
            return None
        remark = Remark(key="parse.xml_broken", values={"name": blob.name, "line": error.lineno})
        plain = parse_text(blob, decoded)
        return document(blob, plain.text, media_type="application/xml", warnings=(*plain.warnings, remark))
    outline = Outline()
    name, tree = root
    write_tree(outline, tree, (name,))
    return document(blob, outline.text, media_type="application/xml", warnings=damage(blob, decoded))


def may_be(blob: Blob) -> bool:
    """Whether the name leaves open what a text is; code with tags (Vue, JSX) stays code."""
    return "." not in blob.name or blob.name.casefold().endswith((".txt", ".dat", ".xls"))


@dataclass(slots=True)
class _Element:
    name: str
    attributes: list[tuple[str, Tree]] = field(default_factory=list["tuple[str, Tree]"])
    children: list[tuple[str, Tree]] = field(default_factory=list["tuple[str, Tree]"])
    text: list[str] = field(default_factory=list[str])  # of the element and all below, in order
    mixed: bool = False  # text stands between its children


class _Reader:
    """Builds the tree of a file from the events of expat, without recursion."""

    def __init__(self) -> None:
        self._open: list[_Element] = [_Element("")]
        self._depth = 0
        self._entities: dict[str, str] = {}

    def read(self, text: str) -> tuple[str, Tree]:
        parser = expat.ParserCreate(encoding="utf-8")
        parser.buffer_text = True
        parser.UseForeignDTD(True)  # entities that are not declared are no error: HTML's are known
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.EntityDeclHandler = self._declare
        # With this handler set, expat hands over references instead of expanding them.
        parser.DefaultHandler = self._other
        parser.Parse(text.encode("utf-8", "replace"), True)
        return self._open[0].children[0]

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            return  # its text goes to the element around it
        element = _Element(_local(name))
        element.attributes = [
            (_local(key), tidy_characters(value))
            for key, value in attributes.items()
            if not key.startswith("xmlns") and not key.endswith(":schemaLocation")
        ]
        self._open.append(element)

    def _end(self, _: str) -> None:
        self._depth -= 1
        if self._depth >= MAX_DEPTH:
            return
        element, parent = self._open.pop(), self._open[-1]
        parent.children.append((element.name, _tree(element)))
        if len(self._open) > 1:
            parent.text += [" ", *element.text, " "] if not parent.mixed else element.text

    def _text(self, text: str) -> None:
        element = self._open[-1]
        element.text.append(text)
        element.mixed = element.mixed or not text.isspace()

    def _declare(self, name: str, parameter: int, value: str | None, *_: object) -> None:
        if not parameter and value is not None and len(value) <= 200 and "&" not in value:
            self._entities.setdefault(name, value)

    def _other(self, data: str) -> None:
        reference = _ENTITY.fullmatch(data)
        if reference is not None and len(self._open) > 1:
            name = reference[1]
            self._text(self._entities.get(name) or html.entities.html5.get(f"{name};", ""))


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _tree(element: _Element) -> Tree:
    """Text, or its parts by name; those with one name that follow each other are a list."""
    if element.mixed or not element.children:
        text = _plain("".join(element.text))
        # Attributes of marks inside running text are no content.
        attributes = (
            [] if element.children else [pair for pair in element.attributes if pair[1] and pair[1] != text]
        )
        if not attributes:
            return text
        return (*attributes, ("text", text)) if text else tuple(attributes)
    runs = _runs(element.children)
    grouped = [(name, group[0] if len(group) == 1 else list(group)) for name, group in runs]
    return (*element.attributes, *grouped)


def _runs(children: Sequence[tuple[str, Tree]]) -> list[tuple[str, list[Tree]]]:
    runs: list[tuple[str, list[Tree]]] = []
    for name, value in children:
        if runs and runs[-1][0] == name:
            runs[-1][1].append(value)
        else:
            runs.append((name, [value]))
    return runs


def _plain(text: str) -> str:
    """Text on one paragraph; of HTML inside it (as feeds carry it) only what a reader sees."""
    if _MARKUP.search(text):
        from selectolax.lexbor import LexborHTMLParser

        body = LexborHTMLParser(text).body
        text = body.text(separator=" ") if body is not None else text
    elif "&" in text:
        text = _ESCAPED_ENTITY.sub(lambda match: html.unescape(match[0]), text)
    return tidy_characters(" ".join(text.split()))
