"""What the styles and lists of a DOCX file mean: heading levels and list marks."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element

from ragstone.parse.package import attribute, child, local

MAX_LEVEL = 6


class Styles:
    """Heading level and list mark of a paragraph; counts numbered lists as it is asked."""

    def __init__(self, styles: Element | None, numbering: Element | None) -> None:
        self._styles = {
            attribute(item, "styleId"): item
            for item in (() if styles is None else styles)
            if local(item) == "style"
        }
        self._default = next(
            (name for name, item in self._styles.items()
             if attribute(item, "default") in ("1", "true") and attribute(item, "type") == "paragraph"), ""
        )  # fmt: skip
        self._levels: dict[str, int] = {}
        self._formats = _list_formats(numbering)
        self._counts: dict[str, dict[int, int]] = {}

    def heading(self, paragraph: Element) -> int:
        """1 to 6 for a heading, 0 for other paragraphs."""
        direct = child(paragraph, "pPr", "outlineLvl")
        if direct is not None:
            return _outline_level(direct)
        style_id = attribute(child(paragraph, "pPr", "pStyle"), "val") or self._default
        if style_id not in self._levels:
            self._levels[style_id] = self._style_level(style_id)
        return self._levels[style_id]

    def _style_level(self, style_id: str) -> int:
        for style in self._ancestors(style_id):
            name = attribute(child(style, "name"), "val").casefold()
            if match := re.fullmatch(r"(?:heading|标题) ?(\d)", name):
                return min(max(int(match[1]), 1), MAX_LEVEL)
            if name == "title":
                return 1
            outline = child(style, "pPr", "outlineLvl")
            if outline is not None:
                return _outline_level(outline)
        return 0

    def _ancestors(self, style_id: str) -> list[Element]:
        found: list[Element] = []
        while (style := self._styles.get(style_id)) is not None and style not in found:
            found.append(style)
            style_id = attribute(child(style, "basedOn"), "val")
        return found

    def mark(self, paragraph: Element) -> str:
        """`- ` or `3. ` with its indent for a list item, else empty."""
        number = child(paragraph, "pPr", "numPr")
        if number is None:
            style_id = attribute(child(paragraph, "pPr", "pStyle"), "val")
            inherited = (child(style, "pPr", "numPr") for style in self._ancestors(style_id))
            number = next((item for item in inherited if item is not None), None)
        list_id = attribute(child(number, "numId"), "val")
        if list_id in ("", "0"):
            return ""
        depth = attribute(child(number, "ilvl"), "val")
        level = min(int(depth), 8) if depth.isdecimal() and len(depth) < 4 else 0
        style, start = self._formats.get(list_id, {}).get(level, ("bullet", 1))
        counts = self._counts.setdefault(list_id, {})
        counts[level] = counts.get(level, start - 1) + 1
        for deeper in [item for item in counts if item > level]:
            del counts[deeper]
        return "  " * level + ("- " if style in ("bullet", "none") else f"{counts[level]}. ")


def _outline_level(element: Element) -> int:
    value = attribute(element, "val")
    return min(int(value) + 1, MAX_LEVEL) if value.isdecimal() and int(value[:4]) < 9 else 0


def _list_formats(numbering: Element | None) -> dict[str, dict[int, tuple[str, int]]]:
    """List id -> level -> (format, first number)."""
    abstract: dict[str, dict[int, tuple[str, int]]] = {}
    formats: dict[str, dict[int, tuple[str, int]]] = {}
    for item in numbering if numbering is not None else ():
        if local(item) == "abstractNum":
            abstract[attribute(item, "abstractNumId")] = {
                int(attribute(level, "ilvl") or 0): _format(level) for level in item if local(level) == "lvl"
            }
        elif local(item) == "num":
            source = attribute(child(item, "abstractNumId"), "val")
            formats[attribute(item, "numId")] = abstract.get(source, {})
    return formats


def _format(level: Element) -> tuple[str, int]:
    start = attribute(child(level, "start"), "val")
    first = int(start) if start.isdecimal() and len(start) < 9 else 1
    return attribute(child(level, "numFmt"), "val") or "decimal", first
