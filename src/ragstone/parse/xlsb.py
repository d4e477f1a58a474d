"""XLSB, the binary form of XLSX ([MS-XLSB]): the same parts, each a row of records."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ragstone.errors import CorruptContent
from ragstone.parse.decode import tidy_characters
from ragstone.parse.number_format import BUILT_IN, Formatter, formatter, general
from ragstone.parse.office_properties import properties
from ragstone.parse.outline import Outline, document
from ragstone.parse.package import Package
from ragstone.parse.tables import Numbered, without_end, write_sheet
from ragstone.parse.xlsx import MAX_COLUMN, MAX_FILLED_ROWS, SheetRef, fill, hidden_remark, relations
from ragstone.place import HIDDEN_MARK
from ragstone.types import Blob, Document

MEDIA_TYPE = "application/vnd.ms-excel.sheet.binary.macroEnabled.12"

_ROW, _SHARED, _FORMAT, _STYLE, _SETTINGS, _SHEET, _MERGE = 0, 19, 44, 47, 153, 156, 176
_RK, _STRINGS, _ERRORS, _BOOLEANS, _REALS, _INDEX = 2, (6, 8), (3, 11), (4, 10), (5, 9), 7
_CELL_STYLES = (617, 618)  # begin, end
_ERROR_TEXTS = {
    0: "#NULL!", 7: "#DIV/0!", 15: "#VALUE!", 23: "#REF!", 29: "#NAME?", 36: "#NUM!", 42: "#N/A",
}  # fmt: skip

Record = tuple[int, bytes]


def parse_xlsb(blob: Blob, package: Package) -> Document:
    """The text of a workbook.

    Raises:
        CorruptContent, ContentTooLarge, NoText
    """
    try:
        return _parse(blob, package)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise CorruptContent("parse.corrupt", name=blob.name, found="XLSB", reason=str(error)) from error


def _parse(blob: Blob, package: Package) -> Document:
    book = list(_records(package.read("xl/workbook.bin")))
    since_1904 = any(kind == _SETTINGS and data[:1] and data[0] & 1 for kind, data in book)
    strings = [
        _wide(data, 1)[0] for kind, data in _records(package.read("xl/sharedStrings.bin")) if kind == _SHARED
    ]
    cells = _Cells(strings, _formats(package, since_1904))
    outline = Outline()
    hidden: list[str] = []
    for sheet in _sheets(package, book):
        rows = without_end(cells.rows(list(_records(package.read(sheet.part)))))
        if not rows:
            continue
        outline.heading(1, f"{sheet.name}{HIDDEN_MARK}" if sheet.hidden else sheet.name)
        hidden += [sheet.name] if sheet.hidden else []
        write_sheet(outline, rows)
    title, metadata = properties(package)
    return document(
        blob,
        outline.text,
        media_type=MEDIA_TYPE,
        title=title,
        headings=outline.headings,
        rows=outline.rows,
        metadata=metadata,
        warnings=hidden_remark(blob, hidden),
    )


def _records(data: bytes) -> Iterator[Record]:
    """(kind, content) of the records of a part; kind and length are written in groups of 7 bits."""
    place = 0
    while place < len(data):
        kind, place = _variable(data, place, 2)
        size, place = _variable(data, place, 4)
        if place + size > len(data):
            raise IndexError("a record is cut off")
        yield kind, data[place : place + size]
        place += size


def _variable(data: bytes, place: int, most: int) -> tuple[int, int]:
    value = 0
    for step in range(most):
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << (7 * step)
        if byte < 0x80:
            break
    return value, place


def _wide(data: bytes, place: int) -> tuple[str, int]:
    """A string with its length in front, and the place after it."""
    (length,) = struct.unpack_from("<I", data, place)
    end = place + 4 + 2 * length
    if end > len(data):
        raise IndexError("a string is cut off")
    return tidy_characters(data[place + 4 : end].decode("utf-16-le", "replace")), end


def _sheets(package: Package, book: list[Record]) -> Iterator[SheetRef]:
    targets = relations(package, "xl/workbook.bin")
    for kind, data in book:
        if kind != _SHEET:
            continue
        for start in (8, 12):  # 12 in files of the first versions of Excel 2007
            try:
                relation, end = _wide(data, start)
                name, end = _wide(data, end)
            except (IndexError, struct.error):
                continue
            if end == len(data):
                _, part = targets.get(relation, ("", ""))
                if part in package.names:
                    yield SheetRef(name, part, data[0] in (1, 2))
                break


def _formats(package: Package, since_1904: bool) -> list[Formatter]:
    codes = dict(BUILT_IN)
    found: list[Formatter] = []
    inside = False
    for kind, data in _records(package.read("xl/styles.bin")):
        if kind == _FORMAT:
            codes[struct.unpack_from("<H", data)[0]] = _wide(data, 2)[0]
        elif kind in _CELL_STYLES:
            inside = kind == _CELL_STYLES[0]
        elif kind == _STYLE and inside:
            code = codes.get(struct.unpack_from("<H", data, 2)[0], "")
            found.append(formatter(code, since_1904=since_1904) if code else general)
    return found


class _Cells:
    def __init__(self, strings: list[str], formats: list[Formatter]) -> None:
        self._strings, self._formats = strings, formats

    def rows(self, records: list[Record]) -> list[Numbered]:
        merged: dict[tuple[int, int], int] = {}
        for kind, data in records:
            if kind == _MERGE:
                first, last, column, _ = struct.unpack_from("<4I", data)
                if first < last:
                    merged[first, column] = min(last, first + MAX_FILLED_ROWS)
        rows: list[tuple[int, list[str]]] = []  # numbered from 0
        for kind, data in records:
            if kind == _ROW:
                rows.append((struct.unpack_from("<I", data)[0], []))
            elif 1 <= kind <= 11 and rows:
                (column,) = struct.unpack_from("<I", data)
                text = self._text(kind, data)
                row = rows[-1][1]
                if text and len(row) <= column < MAX_COLUMN:
                    row += [""] * (column - len(row)) + [text]
        return _placed(rows, merged)

    def _text(self, kind: int, data: bytes) -> str:
        if kind in _STRINGS:
            return _wide(data, 8)[0]
        if kind == _INDEX:
            (index,) = struct.unpack_from("<I", data, 8)
            return self._strings[index] if index < len(self._strings) else ""
        if kind in _BOOLEANS:
            return "TRUE" if data[8] else "FALSE"
        if kind in _ERRORS:
            return _ERROR_TEXTS.get(data[8], "#ERR")
        if kind == _RK or kind in _REALS:
            value = _rk(data) if kind == _RK else struct.unpack_from("<d", data, 8)[0]
            style = int.from_bytes(data[4:7], "little")
            show = self._formats[style] if style < len(self._formats) else general
            try:
                return show(value)
            except (ValueError, OverflowError):
                return str(value)
        return ""


def _rk(data: bytes) -> float:
    """A number in 30 bits: whole, or the upper part of a float; perhaps a hundredth of it is meant."""
    (raw,) = struct.unpack_from("<i", data, 8)
    value = (
        float(raw >> 2) if raw & 2 else struct.unpack("<d", struct.pack("<Q", ((raw & 0xFFFFFFFC) << 32)))[0]
    )
    return value / 100 if raw & 1 else value


def _placed(rows: list[tuple[int, list[str]]], merged: dict[tuple[int, int], int]) -> list[Numbered]:
    placed: list[Numbered] = []
    above: dict[int, tuple[int, str]] = {}
    last = -1
    for number, row in rows:
        if number > last + 1 and placed:
            placed.append((last + 2, []))
        last = number
        fill(row, number, merged, above)
        placed.append((number + 1, row))
    return placed
