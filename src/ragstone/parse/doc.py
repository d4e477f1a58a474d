"""DOC (Word 6 to 2003) to Markdown: headings, lists, tables, notes, comments and text boxes.

Read from its own structures ([MS-DOC]), since xberg 1.3.9 runs the cells of a table
together. The text lies in pieces; which paragraph is a heading, a list item or a cell is
written on pages of properties beside it. Left out: headers, footers, field codes.
"""

from __future__ import annotations

import contextlib
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from ragstone.errors import PasswordRequired, UnsupportedContent
from ragstone.parse.decode import decode, tidy_characters
from ragstone.parse.doc_lists import ListNumbers
from ragstone.parse.ole import Container
from ragstone.parse.outline import MAX_HEADING, Outline, document, table
from ragstone.types import Blob, Document

MEDIA_TYPE = "application/msword"

_WORD_97 = 0xC1
# Code pages of texts from before Unicode, by the language of the file.
_PAGES = {
    0x0804: "gb18030", 0x1004: "gb18030", 0x0404: "big5hkscs", 0x0C04: "big5hkscs", 0x0411: "cp932",
    0x0412: "cp949", 0x0419: "cp1251", 0x0422: "cp1251", 0x0415: "cp1250", 0x0405: "cp1250", 0x040E: "cp1250",
    0x0408: "cp1253", 0x041F: "cp1254", 0x040D: "cp1255", 0x0401: "cp1256", 0x041E: "cp874",
}  # fmt: skip
_SIGNS = {
    "\x0b": "\n", "\x0e": "\n", "\x1e": "-", "\x1f": "", "\xa0": " ", "\x01": "", "\x08": "", "\x03": "",
    "\x04": "",
    "\x05": "",
}  # fmt: skip
_PARAGRAPH_ENDS = "\r\x0c\x07"
_IN_TABLE, _ROW_END, _OUTLINE_LEVEL, _LIST_LEVEL, _LIST = 0x2416, 0x2417, 0x2640, 0x260A, 0x460B
_INNER_CELL, _TABLE_SHAPE = 0x244B, 0xD608
_SIZES = (1, 1, 2, 4, 2, 2, 0, 3)


@dataclass(frozen=True, slots=True)
class _Properties:
    """What a paragraph is."""

    level: int = 0
    in_table: bool = False
    row_end: bool = False
    inner_cell: bool = False
    list_id: int = 0
    list_level: int = 0


@dataclass(frozen=True, slots=True)
class _Piece:
    """Characters `start` to `end` of the text lie from byte `place` on, one or two bytes each."""

    start: int
    end: int
    place: int
    width: int


def parse_doc(blob: Blob, container: Container) -> Document:
    """The text of a Word file.

    Raises:
        PasswordRequired, CorruptContent, NoText
    """
    data = container.read("WordDocument")
    if len(data) < 0x60 or struct.unpack_from("<H", data)[0] not in (0xA5EC, 0xA5DC):
        raise container.corrupt("no Word header")
    version, flags = struct.unpack_from("<H", data, 2)[0], struct.unpack_from("<H", data, 0x0A)[0]
    if flags & 0x100:
        raise PasswordRequired("parse.password", name=blob.name)
    try:
        outline = _old(blob, data) if version < _WORD_97 else _Reader(container, data, flags).read()
    except (struct.error, IndexError, ValueError) as error:
        raise container.corrupt(error or type(error).__name__) from error
    first = next((item.title for item in outline.headings if item.level == 1), "")
    return document(
        blob, outline.text, media_type=MEDIA_TYPE, title=_title(container) or first, headings=outline.headings
    )


def _title(container: Container) -> str:
    """The title of the summary ([MS-OLEPS]), if it is written in a way that can be read safely."""
    data = container.read("\x05SummaryInformation")
    try:
        (start,) = struct.unpack_from("<I", data, 44)
        count = struct.unpack_from("<I", data, start + 4)[0]
        places = dict(
            struct.unpack_from("<II", data, start + 8 + 8 * index) for index in range(min(count, 100))
        )
        page = struct.unpack_from("<h", data, start + places[1] + 4)[0] & 0xFFFF if 1 in places else 1252
        kind, size = struct.unpack_from("<II", data, start + places[2])
        if kind != 30:
            return ""
        raw = data[start + places[2] + 8 : start + places[2] + 8 + size].partition(b"\x00")[0]
        return tidy_characters(raw.decode({65001: "utf-8", 936: "gb18030"}.get(page, f"cp{page}"))).strip()
    except (struct.error, KeyError, LookupError, UnicodeDecodeError):
        return ""


# --- Word 6 and 95 -------------------------------------------------------------------


def _old(blob: Blob, data: bytes) -> Outline:
    """Text in one run of bytes, in the code page of its language."""
    language = struct.unpack_from("<H", data, 6)[0]
    first, last = struct.unpack_from("<II", data, 0x18)
    raw = data[first : min(last, first + struct.unpack_from("<I", data, 0x34)[0] or last)]
    try:
        text = raw.decode(_PAGES.get(language, "cp1252"))
    except UnicodeDecodeError:
        text = raw.decode("cp1252", "replace")
    if not raw.isascii() and language not in _PAGES:
        with contextlib.suppress(UnsupportedContent):
            text = decode(raw.translate(None, bytes(range(9)) + b"\x0e\x0f"), name=blob.name).text
    outline = Outline()
    for part in text.replace("\x07", "\r").replace("\x0c", "\r").replace("\n", "\r").split("\r"):
        outline.block(_shown(part))
    return outline


# --- Word 97 and later ---------------------------------------------------------------


class _Reader:
    def __init__(self, container: Container, data: bytes, flags: int) -> None:
        self._data = data
        self._tables = container.read("1Table" if flags & 0x200 else "0Table")
        if not self._tables:
            raise container.corrupt("no table stream")
        self._pieces = list(self._read_pieces())
        self._ends, self._kinds = self._read_properties()
        self._lists = ListNumbers(self._at(0x2E2), self._at(0x2EA), self._tables, self._offset(0x2E2))
        self.outline = Outline()
        self._notes = self._written_notes = 0
        self._in_list = False

    def read(self) -> Outline:
        text, places = self._text()
        # Lengths of the parts of the text: main, footnotes, headers, macros, comments, endnotes, boxes.
        lengths = struct.unpack_from("<7i", self._data, 0x4C)
        start = 0
        for kind, length in enumerate(lengths):
            part = text[start : start + max(length, 0)]
            if kind == 0 or kind == 6:
                self._write(part, places[start : start + len(part)])
            elif kind in (1, 5):
                self._write_notes(part)
            elif kind == 4:
                for comment in filter(None, (_shown(item) for item in part.split("\x05"))):
                    self.outline.block("\n".join(f"> {line}" for line in comment.split("\n")))
            start += len(part)
        return self.outline

    def _offset(self, place: int) -> int:
        return struct.unpack_from("<I", self._data, place)[0]

    def _at(self, place: int) -> bytes:
        """What the pair (offset, length) at `place` of the header points to in the table stream."""
        if len(self._data) < place + 8:
            return b""
        offset, length = struct.unpack_from("<II", self._data, place)
        return self._tables[offset : offset + length]

    def _read_pieces(self) -> Iterator[_Piece]:
        table_of_pieces = self._at(0x1A2)
        place = 0
        while place < len(table_of_pieces) and table_of_pieces[place] == 1:
            place += 3 + struct.unpack_from("<H", table_of_pieces, place + 1)[0]
        if place + 5 > len(table_of_pieces):
            raise ValueError("no table of pieces")
        body = table_of_pieces[
            place + 5 : place + 5 + struct.unpack_from("<I", table_of_pieces, place + 1)[0]
        ]
        count = (len(body) - 4) // 12
        bounds = struct.unpack_from(f"<{count + 1}I", body)
        for index in range(count):
            (raw,) = struct.unpack_from("<I", body, 4 * (count + 1) + 8 * index + 2)
            narrow = bool(raw & 0x40000000)
            offset = (raw & 0x3FFFFFFF) // 2 if narrow else raw & 0x3FFFFFFF
            if bounds[index] > bounds[index + 1]:
                raise ValueError("pieces out of order")
            yield _Piece(bounds[index], bounds[index + 1], offset, 1 if narrow else 2)

    def _text(self) -> tuple[str, array[int]]:
        """All characters (16 bits each), and the byte that each comes from."""
        parts: list[str] = []
        places = array("Q")
        for piece in self._pieces:
            length = (piece.end - piece.start) * piece.width
            raw = self._data[piece.place : piece.place + length]
            if len(raw) < length:
                raise ValueError("the text is cut off")
            if piece.width == 1:
                parts.append(raw.decode("cp1252", "replace"))
            else:
                parts.append("".join(map(chr, struct.unpack(f"<{len(raw) // 2}H", raw))))
            places.extend(range(piece.place, piece.place + length, piece.width))
        return "".join(parts), places

    def _read_properties(self) -> tuple[list[int], list[_Properties]]:
        """Bytes where paragraphs end, in order, and what each paragraph is."""
        index = self._at(0x102)
        count = (len(index) - 4) // 8
        found: dict[int, _Properties] = {}
        for number in struct.unpack_from(f"<{count}I", index, 4 * (count + 1)) if count > 0 else ():
            page = self._data[512 * (number & 0x3FFFFF) : 512 * (number & 0x3FFFFF) + 512]
            if len(page) == 512:
                found.update(_page_properties(page))
        ends = sorted(found)
        return ends, [found[end] for end in ends]

    def _properties(self, place: int) -> _Properties:
        index = bisect_right(self._ends, place)
        return self._kinds[index] if index < len(self._kinds) else _Properties()

    # --- writing

    def _write(self, text: str, places: array[int]) -> None:
        rows: list[list[str]] = []
        cells: list[str] = []
        cell: list[str] = []
        for paragraph, end in _paragraphs(text):
            kind = self._properties(places[end])
            shown = self._with_notes(paragraph)
            if kind.in_table:
                if kind.row_end:
                    rows.append(cells)
                    cells = []
                elif text[end] == "\x07" and not kind.inner_cell:
                    cells.append(" ".join(filter(None, [*cell, shown])))
                    cell = []
                else:
                    cell.append(shown)
                continue
            self._write_table(rows)
            rows, cells, cell = [], [], []
            self._write_paragraph(shown, kind)
        self._write_table([*rows, [*cells, " ".join(cell)]])

    def _write_table(self, rows: list[list[str]]) -> None:
        if text := table(rows):
            self.outline.block(text)
            self._in_list = False

    def _write_paragraph(self, text: str, kind: _Properties) -> None:
        if not text:
            return
        if kind.level and len(text) <= MAX_HEADING:
            self.outline.heading(kind.level, text)
            self._in_list = False
            return
        mark = self._lists.mark(kind.list_id, kind.list_level) if kind.list_id else ""
        self.outline.block(mark + text, gap="\n" if mark and self._in_list else "\n\n")
        self._in_list = bool(mark)

    def _with_notes(self, text: str) -> str:
        parts = text.split("\x02")
        shown = parts[0]
        for part in parts[1:]:
            self._notes += 1
            shown += f"[^{self._notes}]{part}"
        return _shown(shown)

    def _write_notes(self, part: str) -> None:
        """Footnotes or endnotes; each begins with the sign that refers to it."""
        for text in part.split("\x02")[1:]:
            self._written_notes += 1
            shown = _shown(text).replace("\n", " ")
            self.outline.block(f"[^{self._written_notes}]: {shown}" if shown else "")


def _paragraphs(text: str) -> Iterator[tuple[str, int]]:
    """(paragraph, place of the sign that ends it) without the codes of fields."""
    depth: list[bool] = []  # of each open field: whether its result has begun
    kept: list[str] = []
    for place, sign in enumerate(text):
        if sign == "\x13":
            depth.append(False)
        elif sign == "\x14":
            if depth:
                depth[-1] = True
        elif sign == "\x15":
            if depth:
                depth.pop()
        elif sign in _PARAGRAPH_ENDS:
            yield "".join(kept), place
            kept = []
        elif all(depth):
            kept.append(sign)
    if kept:
        yield "".join(kept), len(text) - 1


def _shown(text: str) -> str:
    """Text without signs that only Word understands; halves of one character are joined."""
    text = "".join(_SIGNS.get(sign, sign) for sign in text)
    text = text.replace("\x02", "").replace("\x07", "\n").replace("\r", "\n")
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return tidy_characters(text).strip()


def _page_properties(page: bytes) -> dict[int, _Properties]:
    """Byte where a paragraph ends -> what it is, from one page of 512 bytes."""
    count = page[511]
    found: dict[int, _Properties] = {}
    if 4 * (count + 1) + 13 * count > 511:
        return found
    ends = struct.unpack_from(f"<{count}I", page, 4)
    for index, end in enumerate(ends):
        place = 2 * page[4 * (count + 1) + 13 * index]
        if not place:
            found[end] = _Properties()
            continue
        size = 2 * page[place] - 1 if page[place] else 2 * page[place + 1]
        start = place + 1 if page[place] else place + 2
        found[end] = _paragraph(page[start : start + size])
    return found


def _paragraph(data: bytes) -> _Properties:
    if len(data) < 2:
        return _Properties()
    (style,) = struct.unpack_from("<H", data)
    values = dict(_changes(data[2:]))
    # The first nine styles are the built-in headings in every file.
    level = style if 1 <= style <= 9 else 0
    if _OUTLINE_LEVEL in values:
        level = values[_OUTLINE_LEVEL] + 1 if values[_OUTLINE_LEVEL] < 9 else 0
    return _Properties(
        level=min(level, 6),
        in_table=bool(values.get(_IN_TABLE)),
        row_end=bool(values.get(_ROW_END)),
        inner_cell=bool(values.get(_INNER_CELL)),
        list_id=values.get(_LIST, 0),
        list_level=values.get(_LIST_LEVEL, 0),
    )


def _changes(data: bytes) -> Iterator[tuple[int, int]]:
    """(property, value) of the changes to a paragraph; values of more than four bytes are passed over."""
    place = 0
    while place + 2 < len(data):
        (name,) = struct.unpack_from("<H", data, place)
        place += 2
        size = _SIZES[name >> 13]
        if not size:
            size = struct.unpack_from("<H", data, place)[0] + 1 if name == _TABLE_SHAPE else data[place] + 1
        elif place + size <= len(data):
            yield name, int.from_bytes(data[place : place + size], "little")
        place += size
