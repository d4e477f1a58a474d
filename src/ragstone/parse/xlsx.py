"""XLSX: every sheet under its name, cells as they are shown, formulas by their last value,
or as they are written where no program has computed them.

Read straight from its XML: the libraries tried give dates and numbers without their
formats (2.5% is 0.025) and drop comments. A hidden sheet is marked; a cell that covers
rows stands in each, as in tables of other formats; one that covers columns stands once.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from ragstone.parse.decode import tidy_characters
from ragstone.parse.number_format import BUILT_IN, Formatter, formatter, general
from ragstone.parse.office_properties import properties
from ragstone.parse.outline import Outline, document
from ragstone.parse.package import Package, attribute, child, each, local
from ragstone.parse.tables import Numbered, without_end, write_sheet
from ragstone.place import HIDDEN_MARK
from ragstone.types import Blob, Document, Remark

MEDIA_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
MAX_COLUMN = 16_384
MAX_FILLED_ROWS = 200
"""Rows down which a merged cell is repeated at most."""

_CELL = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})")
_MERGE = re.compile(rb'<(?:\w+:)?mergeCell\b[^>]*?\bref="([A-Z]{1,3}\d{1,7}):([A-Z]{1,3}\d{1,7})"')
_LINK = re.compile(r'HYPERLINK\("((?:[^"]|"")*)"(?:,\s*"((?:[^"]|"")*)")?\)', re.IGNORECASE)
_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")


@dataclass(frozen=True, slots=True)
class SheetRef:
    """A sheet of a workbook: its name and the part that holds it."""

    name: str
    part: str
    hidden: bool


def parse_xlsx(blob: Blob, package: Package) -> Document:
    """The text of a workbook.

    Raises:
        CorruptContent, ContentTooLarge: as for every package.
        NoText: all its sheets are empty.
    """
    book = package.xml("xl/workbook.xml")
    reader = _Cells(package, since_1904=attribute(child(book, "workbookPr"), "date1904") in ("1", "true"))
    outline = Outline()
    hidden: list[str] = []
    blank = True
    for sheet in _sheets(package, book):
        rows = reader.rows(sheet.part)
        notes = list(_notes(package, sheet.part))
        if not rows and not notes:
            continue
        blank = False
        outline.heading(1, f"{sheet.name}{HIDDEN_MARK}" if sheet.hidden else sheet.name)
        hidden += [sheet.name] if sheet.hidden else []
        write_sheet(outline, rows)
        for note in notes:
            outline.block(note)
    title, metadata = properties(package)
    return document(
        blob,
        "" if blank else outline.text,
        media_type=MEDIA_TYPE,
        title=title,
        headings=outline.headings,
        rows=outline.rows,
        metadata=metadata,
        warnings=hidden_remark(blob, hidden),
    )


def hidden_remark(blob: Blob, names: list[str]) -> tuple[Remark, ...]:
    """That sheets which the program does not show were read too."""
    if not names:
        return ()
    values = {"name": blob.name, "count": len(names), "sheets": ", ".join(names)[:200]}
    return (Remark(key="parse.hidden_sheets", values=values),)


def relations(package: Package, part: str) -> dict[str, tuple[str, str]]:
    """Id -> (last word of the type, target part) of what `part` refers to inside the package."""
    folder, name = posixpath.split(part)
    found: dict[str, tuple[str, str]] = {}
    for item in package.items(posixpath.join(folder, "_rels", f"{name}.rels")):
        if attribute(item, "TargetMode") != "External":
            target = attribute(item, "Target")
            path = target.lstrip("/") if target.startswith("/") else posixpath.join(folder, target)
            kind = attribute(item, "Type").rpartition("/")[2]
            found[attribute(item, "Id")] = (kind, posixpath.normpath(path))
    return found


def _sheets(package: Package, book: Element | None) -> Iterator[SheetRef]:
    targets = relations(package, "xl/workbook.xml")
    for sheet in each(child(book, "sheets")):
        # The relation's id has the name `id` with a namespace, so that it differs from `sheetId`.
        kind, part = targets.get(attribute(sheet, "id"), ("", ""))
        if kind in ("worksheet", "") and part in package.names:
            yield SheetRef(attribute(sheet, "name"), part, attribute(sheet, "state").endswith("idden"))


def _notes(package: Package, part: str) -> Iterator[str]:
    """Comments of cells and text in shapes, after the table."""
    for kind, target in relations(package, part).values():
        if kind == "comments":
            for item in package.children(target, depth=3):
                text = _plain(item)
                if local(item) == "comment" and text:
                    yield f"> {attribute(item, 'ref')}: {text}"
        elif kind == "drawing":
            for anchor in package.children(target, depth=2):
                paragraphs = (_joined(item) for item in anchor.iter() if local(item) == "p")
                text = "\n".join(filter(None, paragraphs))
                if text:
                    yield tidy_characters(text)


class _Cells:
    """Reads the cells of sheets, with the strings and formats that all of them share."""

    def __init__(self, package: Package, *, since_1904: bool) -> None:
        self._package, self._since_1904 = package, since_1904
        self._strings = [_plain(item) for item in package.children("xl/sharedStrings.xml", depth=2)] if (
            "xl/sharedStrings.xml" in package.names
        ) else []  # fmt: skip
        self._formats = self._read_formats()

    def _read_formats(self) -> list[Formatter]:
        styles = self._package.xml("xl/styles.xml")
        codes = dict(BUILT_IN)
        for item in each(child(styles, "numFmts")):
            if attribute(item, "numFmtId").isdecimal():
                codes[int(attribute(item, "numFmtId"))] = attribute(item, "formatCode")
        found: list[Formatter] = []
        for item in each(child(styles, "cellXfs")):
            number = attribute(item, "numFmtId")
            code = codes.get(int(number), "") if number.isdecimal() else ""
            found.append(formatter(code, since_1904=self._since_1904) if code else general)
        return found

    def rows(self, part: str) -> list[Numbered]:
        """Rows of text up to the last that holds something; a gap in between is one empty row."""
        data = self._package.read(part)
        merged = _merged(data)
        rows: list[Numbered] = []
        last = 0
        above: dict[int, tuple[int, str]] = {}  # column -> last row of a merged cell, its text
        for element in self._package.elements(data, depth=3):
            if local(element) != "row":
                continue
            said = element.get("r") or ""
            number = int(said) if said.isdecimal() and len(said) < 9 else last + 1
            row = self._row(element)
            if number > last + 1 and rows:
                rows.append((last + 1, []))
            last = number
            fill(row, number, merged, above)
            rows.append((number, row))
        return without_end(rows)

    def _row(self, element: Element) -> list[str]:
        row: list[str] = []
        for cell in element:
            reference = cell.get("r")
            column = place(reference)[0] if reference else len(row)
            if column >= MAX_COLUMN:
                continue
            text = self._text(cell)
            if text:
                row += [""] * (column - len(row))
                if column < len(row):
                    row[column] = text
                else:
                    row.append(text)
        return row

    def _text(self, cell: Element) -> str:
        kind, value, computed = cell.get("t", "n"), "", ""
        for item in cell:
            if item.tag.endswith("}v"):
                value = item.text or ""
            elif item.tag.endswith("}f"):
                computed = item.text or ""
            elif item.tag.endswith("}is"):
                return _plain(item)
        if not value:
            return _formula(computed) if computed else ""
        if kind == "s":
            index = int(value) if value.isdecimal() else -1
            return self._strings[index] if 0 <= index < len(self._strings) else ""
        if kind in ("str", "e", "d"):
            return _unescaped(value)
        if kind == "b":
            return "TRUE" if value == "1" else "FALSE"
        return self._number(value, cell.get("s", "0"))

    def _number(self, value: str, style: str) -> str:
        try:
            number = float(value)
            show = self._formats[int(style)] if int(style) < len(self._formats) else general
            return show(number)
        except (ValueError, OverflowError):
            return value


def _formula(code: str) -> str:
    """What a formula says that no program has computed yet: the text of a link, else itself."""
    link = _LINK.fullmatch(code)
    return _unescaped((link[2] or link[1]).replace('""', '"') if link else f"={code}")


def _merged(data: bytes) -> dict[tuple[int, int], int]:
    """(row, column) of merged cells that cover rows -> their last row."""
    found: dict[tuple[int, int], int] = {}
    for match in _MERGE.finditer(data, max(data.rfind(b"sheetData"), 0)):
        (column, first), (_, last) = place(match[1].decode()), place(match[2].decode())
        if first < last:
            found[first, column] = min(last, first + MAX_FILLED_ROWS)
    return found


def place(reference: str) -> tuple[int, int]:
    """(column from 0, row from 1) of a cell such as `AB12`; (MAX_COLUMN, 0) where it is none."""
    match = _CELL.fullmatch(reference)
    if match is None:
        return MAX_COLUMN, 0
    column = 0
    for letter in match[1]:
        column = column * 26 + ord(letter) - 64
    return column - 1, int(match[2])


def fill(
    row: list[str], number: int, merged: dict[tuple[int, int], int], above: dict[int, tuple[int, str]]
) -> None:
    """Repeat the merged cells that reach down to this row, and remember those that begin in it."""
    if not merged:
        return
    for column in [column for column, (end, _) in above.items() if end < number]:
        del above[column]
    if any(row):
        for column, (_, text) in above.items():
            row += [""] * (column + 1 - len(row))
            row[column] = row[column] or text
    for column, text in enumerate(row):
        if text and (end := merged.get((number, column))):
            above[column] = (end, text)


def _plain(element: Element) -> str:
    """The text of a string without its phonetic reading."""
    parts: list[str] = []
    phonetic: set[Element] = set()
    for item in element.iter():
        tag = local(item)
        if tag in ("rPh", "authors"):
            phonetic.update(item.iter())
        elif tag == "t" and item not in phonetic:
            parts.append(item.text or "")
    return _unescaped("".join(parts))


def _unescaped(text: str) -> str:
    if "_x" in text:
        text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return tidy_characters(text)


def _joined(paragraph: Element) -> str:
    return "".join(item.text or "" for item in paragraph.iter() if local(item) == "t").strip()
