"""DOCX to Markdown: headings, lists, tables, text boxes, notes and formulas, in reading order.

Read straight from its XML, since the libraries tried lost or altered words: xberg 1.3.9
leaves out tracked deletions, writes comment marks into sentences and escapes signs. Rules:
tracked insertions are text, tracked deletions are ~~struck~~; hidden text, headers and
footers are left out; a cell that covers rows stands in each; comments follow as quotes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from ragstone.parse.decode import tidy_characters
from ragstone.parse.docx_styles import Styles
from ragstone.parse.math import formula
from ragstone.parse.office_properties import properties
from ragstone.parse.outline import MAX_HEADING, Outline, document, table
from ragstone.parse.package import Package, attribute, child, local
from ragstone.types import Blob, Document

MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

_SKIPPED = frozenset({
    "rPr", "pPr", "sectPr", "instrText", "delInstrText", "rt", "tblPr", "tblGrid", "trPr", "tcPr",
    "sdtPr", "sdtEndPr", "altChunk", "annotationRef", "commentReference", "footnoteRef", "endnoteRef",
    "binData",
})  # fmt: skip
_SIGNS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_CONTAINERS = frozenset({"sdt", "sdtContent", "customXml", "ins", "moveTo", "smartTag", "del", "moveFrom"})


def parse_docx(blob: Blob, package: Package) -> Document:
    """The text of a DOCX file.

    Raises:
        CorruptContent: damaged.
        ContentTooLarge: unpacks to too much.
        NoText: it holds pictures only, or nothing.
    """
    main = _main_part(package)
    reader = _Reader(package, main)
    for element in package.children(main, depth=3):
        reader.block(element)
    reader.end()
    first = next((item.title for item in reader.outline.headings if item.level == 1), "")
    title, metadata = properties(package)
    return document(
        blob,
        reader.outline.text,
        media_type=MEDIA_TYPE,
        title=first or title,
        headings=reader.outline.headings,
        metadata=metadata,
    )


def _main_part(package: Package) -> str:
    for item in package.items("_rels/.rels"):
        if attribute(item, "Type").endswith("/officeDocument"):
            return attribute(item, "Target").lstrip("/")
    return "word/document.xml"


class _Reader:
    """Turns block elements into an outline; notes are gathered and written at the end."""

    def __init__(self, package: Package, main: str) -> None:
        self.outline = Outline()
        folder = posixpath.dirname(main)
        self._styles = Styles(
            package.xml(posixpath.join(folder, "styles.xml")),
            package.xml(posixpath.join(folder, "numbering.xml")),
        )
        self._package, self._folder = package, folder
        self._notes: list[tuple[str, str]] = []  # (part, id) in the order of their marks
        self._comments: list[str] = []
        self._in_list = False

    def block(self, element: Element) -> None:
        tag = local(element)
        if tag == "p":
            self._paragraph(element)
        elif tag == "tbl":
            self._table(element)
        elif tag == "AlternateContent":
            self.block(_choice(element))
        elif tag in _CONTAINERS or tag in ("Choice", "Fallback", "txbxContent"):
            for item in element:
                self.block(item)

    def _paragraph(self, element: Element) -> None:
        boxes: list[Element] = []
        text = tidy_characters(self._inline(element, boxes)).strip()
        level = self._styles.heading(element)
        if level and text and len(text) <= MAX_HEADING:
            self.outline.heading(level, text)
            self._in_list = False
        else:
            mark = self._styles.mark(element) if text else ""
            gap = "\n" if mark and self._in_list else "\n\n"
            self.outline.block(mark + text, gap=gap)
            self._in_list = bool(mark) or (self._in_list and not text)
        for box in boxes:
            self.block(box)

    def _table(self, element: Element) -> None:
        self._in_list = False
        rows = list(_rows(element))
        if len(rows) == 1 and len(cells := list(_cells(rows[0]))) == 1:
            for item in cells[0]:  # a frame around text
                self.block(item)
            return
        self.outline.block(table(self._grid(rows)))

    def _grid(self, rows: list[Element]) -> list[list[str]]:
        grid: list[list[str]] = []
        for row in rows:
            line = [""] * min(_number(child(row, "trPr", "gridBefore")), 50)
            for cell in _cells(row):
                merge = child(cell, "tcPr", "vMerge")
                text = self._flat(cell)
                if merge is not None and attribute(merge, "val") != "restart" and not text and grid:
                    text = grid[-1][len(line)] if len(line) < len(grid[-1]) else ""
                line += [text] + [""] * min(_number(child(cell, "tcPr", "gridSpan"), 1) - 1, 50)
            grid.append(line)
        return grid

    def _flat(self, element: Element) -> str:
        """All text below `element` on one line, blocks parted by spaces."""
        boxes: list[Element] = []
        parts: list[str] = []
        for item in element:
            tag = local(item)
            if tag in ("tcPr", "trPr", "tblPr", "tblGrid"):
                continue
            parts.append(self._inline(item, boxes) if tag == "p" else self._flat(item))
        parts += [self._flat(box) for box in boxes]
        return " ".join(tidy_characters(" ".join(parts)).split())

    def _inline(self, element: Element, boxes: list[Element]) -> str:
        tag = local(element)
        if tag in ("t", "delText"):
            return element.text or ""
        if tag in _SIGNS:
            return _SIGNS[tag]
        if tag in _SKIPPED:
            if tag == "commentReference":
                self._comments.append(attribute(element, "id"))
            return ""
        if tag in ("footnoteReference", "endnoteReference"):
            self._notes.append((f"{tag.removesuffix('Reference')}s.xml", attribute(element, "id")))
            return f"[^{len(self._notes)}]"
        if tag == "oMath":
            return formula(element)
        if tag == "txbxContent":
            boxes.append(element)
            return ""
        if tag == "AlternateContent":
            element = _choice(element)
        if tag == "r" and _is_hidden(element):
            return ""
        text = "".join([self._inline(item, boxes) for item in element])
        return f"~~{text.strip()}~~" if tag in ("del", "moveFrom") and text.strip() else text

    def end(self) -> None:
        """Write notes and comments. A note may hold marks of further notes."""
        parts: dict[str, dict[str, Element]] = {}
        for number, (part, note_id) in enumerate(self._notes, 1):
            if part not in parts:
                parts[part] = self._numbered(part)
            if (note := parts[part].get(note_id)) is not None:
                self.outline.block(f"[^{number}]: {self._flat(note)}")
        comments = self._numbered("comments.xml") if self._comments else {}
        for comment_id in self._comments:
            if (comment := comments.get(comment_id)) is not None:
                author, text = attribute(comment, "author"), self._flat(comment)
                self.outline.block(f"> {author}: {text}" if author else f"> {text}")

    def _numbered(self, part: str) -> dict[str, Element]:
        root = self._package.xml(posixpath.join(self._folder, part))
        return {attribute(item, "id"): item for item in root if len(item)} if root is not None else {}


def _rows(element: Element) -> Iterator[Element]:
    for item in element:
        if local(item) == "tr":
            yield item
        elif local(item) in _CONTAINERS:
            yield from _rows(item)


def _cells(row: Element) -> Iterator[Element]:
    for item in row:
        if local(item) == "tc":
            yield item
        elif local(item) in _CONTAINERS:
            yield from _cells(item)


def _choice(element: Element) -> Element:
    """Of the two forms of one drawing, the newer if it holds text, never both."""
    choice, fallback = child(element, "Choice"), child(element, "Fallback")
    if choice is not None and (fallback is None or any(local(item) == "t" for item in choice.iter())):
        return choice
    return fallback if fallback is not None else element


def _is_hidden(run: Element) -> bool:
    vanish = child(run, "rPr", "vanish")
    return vanish is not None and attribute(vanish, "val") not in ("0", "false", "off")


def _number(element: Element | None, default: int = 0) -> int:
    value = attribute(element, "val")
    return int(value) if value.isdecimal() and len(value) < 9 else default
