"""XLS (Excel 2 to 2003) through xlrd, which knows the number formats that other readers drop."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, cast

from ragstone.errors import CorruptContent, PasswordRequired
from ragstone.parse.decode import tidy_characters
from ragstone.parse.number_format import formatter, general
from ragstone.parse.outline import Outline, document
from ragstone.parse.tables import without_end, write_sheet
from ragstone.parse.xlsx import MAX_FILLED_ROWS, hidden_remark
from ragstone.place import HIDDEN_MARK
from ragstone.types import Blob, Document

MEDIA_TYPE = "application/vnd.ms-excel"

# What xlrd raises for files that are cut off or damaged, beside its own errors.
_DAMAGE = (
    struct.error,
    ArithmeticError,
    IndexError,
    KeyError,
    ValueError,
    AssertionError,
    TypeError,
    AttributeError,
)
_EMPTY, _TEXT, _NUMBER, _DATE, _BOOLEAN, _ERROR, _BLANK = range(7)


class _Sheet(Protocol):
    name: str
    visibility: int
    nrows: int
    ncols: int
    merged_cells: Sequence[tuple[int, int, int, int]]
    cell_note_map: dict[tuple[int, int], Any]

    def row_types(self, rowx: int) -> Sequence[int]: ...
    def row_values(self, rowx: int) -> Sequence[Any]: ...
    def cell_xf_index(self, rowx: int, colx: int) -> int: ...
    def row_len(self, rowx: int) -> int: ...


def parse_xls(blob: Blob) -> Document:
    """The text of a workbook.

    Raises:
        PasswordRequired, CorruptContent, NoText
    """
    from xlrd import open_workbook
    from xlrd.biffh import XLRDError
    from xlrd.compdoc import CompDocError

    try:
        book: Any = open_workbook(
            file_contents=blob.data, formatting_info=True, logfile=io.StringIO(), ragged_rows=True
        )
        return _read(blob, book)
    except XLRDError as error:
        if "encrypted" in str(error).lower() or "password" in str(error).lower():
            raise PasswordRequired("parse.password", name=blob.name) from error
        raise _corrupt(blob, error) from error
    except (CompDocError, *_DAMAGE) as error:
        raise _corrupt(blob, error) from error


def _read(blob: Blob, book: Any) -> Document:
    from xlrd import error_text_from_code

    outline = Outline()
    hidden: list[str] = []
    cells = _Cells(book, error_text_from_code)
    for sheet in cast("list[_Sheet]", book.sheets()):
        rows = without_end(list(enumerate(cells.rows(sheet), 1)))
        notes = [str(note.text).strip() for note in sheet.cell_note_map.values()]
        if not rows and not any(notes):
            continue
        name = tidy_characters(sheet.name)
        outline.heading(1, f"{name}{HIDDEN_MARK}" if sheet.visibility else name)
        hidden += [name] if sheet.visibility else []
        write_sheet(outline, rows)
        for note in filter(None, notes):
            outline.block(f"> {tidy_characters(note)}")
    author = tidy_characters(str(book.user_name or "").strip())
    return document(
        blob,
        outline.text,
        media_type=MEDIA_TYPE,
        headings=outline.headings,
        rows=outline.rows,
        metadata={"author": author} if author else {},
        warnings=hidden_remark(blob, hidden),
    )


class _Cells:
    def __init__(self, book: Any, errors: dict[int, str]) -> None:
        self._errors = errors
        self._since_1904 = book.datemode == 1
        formats = book.format_map
        self._codes: list[str] = [
            str(formats[xf.format_key].format_str) if xf.format_key in formats else "" for xf in book.xf_list
        ]

    def rows(self, sheet: _Sheet) -> Iterator[list[str]]:
        covered: dict[tuple[int, int], tuple[int, int]] = {}
        for first, last, left, _ in sheet.merged_cells:
            for row in range(first + 1, min(last, first + MAX_FILLED_ROWS)):
                covered[row, left] = (first, left)
        texts: dict[tuple[int, int], str] = {}
        tops = set(covered.values())
        for number in range(sheet.nrows):
            row = [
                self._text(sheet, number, column, kind, value)
                for column, (kind, value) in enumerate(
                    zip(sheet.row_types(number), sheet.row_values(number), strict=True)
                )
            ]
            for column, text in enumerate(row):
                if (number, column) in tops:
                    texts[number, column] = text
                elif not text and (top := covered.get((number, column))) is not None and any(row):
                    row[column] = texts.get(top, "")
            yield row

    def _text(self, sheet: _Sheet, row: int, column: int, kind: int, value: Any) -> str:
        if kind in (_EMPTY, _BLANK):
            return ""
        if kind == _TEXT:
            return tidy_characters(str(value))
        if kind == _BOOLEAN:
            return "TRUE" if value else "FALSE"
        if kind == _ERROR:
            return self._errors.get(int(value), "#ERR")
        index = sheet.cell_xf_index(row, column)
        code = self._codes[index] if index < len(self._codes) else ""
        show = formatter(code, since_1904=self._since_1904) if code else general
        return show(float(value))


def _corrupt(blob: Blob, error: Exception) -> CorruptContent:
    reason = " ".join(f"{error}".split())[:200] or type(error).__name__
    return CorruptContent("parse.corrupt", name=blob.name, found="XLS", reason=reason)
