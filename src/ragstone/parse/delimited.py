"""Tables as text (CSV, TSV and their kin): the delimiter is found, every row keeps its column names."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from ragstone.parse.decode import Decoded
from ragstone.parse.outline import Outline, document, row_spans
from ragstone.parse.tables import Numbered, is_head, write_table
from ragstone.parse.text import damage, parse_text
from ragstone.place import DELIMITED
from ragstone.types import Blob, Document

NAMES = frozenset({"csv", "tsv", "tab", "psv"})
_DELIMITERS = ",;\t|"
_SAMPLE_LINES = 100
_NUMBER = re.compile(r"[-+]?[\d.,:/ %-]*\d[\d.,:/ %-]*")


def parse_delimited(blob: Blob, decoded: Decoded) -> Document:
    """The rows under their column names. Without names, or without a delimiter, the text stays as it is."""
    text, delimiter = _without_hint(decoded.text)
    delimiter = delimiter or find_delimiter(text)
    numbered = list(_rows(text, delimiter)) if delimiter else []
    rows = [row for _, row in numbered]
    before = next((index for index, row in enumerate(rows) if len(row) > 1), 0)  # lines above the table
    rows = rows[before:]
    if not rows or not is_head(rows):
        skipped = decoded.text.count("\n") - text.count("\n")
        return _as_text(blob, decoded, numbered, skipped)
    outline = Outline()
    lines = [(number, line) for number, row in numbered[:before] for line in row[0].split("\n")]
    outline.block("\n".join(line for _, line in lines), rows=[number for number, _ in lines])
    write_table(outline, rows[0], rows[1:], [number for number, _ in numbered[before:]])
    return document(
        blob, outline.text, media_type=DELIMITED, warnings=damage(blob, decoded), rows=outline.rows
    )


def _as_text(blob: Blob, decoded: Decoded, rows: list[Numbered], skipped: int) -> Document:
    """The text as it stands, whose lines are the rows where no cell has several; `skipped` come before."""
    found = parse_text(blob, decoded)
    if not rows or any("\n" in cell for _, row in rows for cell in row):
        return found
    above = len(decoded.text) - len(decoded.text.lstrip("\n"))
    lines = range(above + 1 - skipped, above + found.text.count("\n") + 2 - skipped)
    return replace(found, rows=tuple(row_spans(found.text, lines)))


def find_delimiter(text: str, *, strict: bool = False) -> str:
    """The sign that parts most rows into the same number of cells, empty when none does.

    `strict` is for files whose name promises no table: every one of three rows or more
    must have the same number of short cells, three of them unless tabs part them.
    """
    head = "\n".join(text[:500_000].split("\n", _SAMPLE_LINES)[:_SAMPLE_LINES])
    best, best_score = "", 0.0
    for delimiter in _DELIMITERS:
        if delimiter not in head:
            continue
        rows = [row for _, row in _rows(head, delimiter)]
        widths = Counter(len(row) for row in rows)
        wide = [(count, width) for width, count in widths.items() if width > 1]
        if not wide:
            continue
        count, width = max(wide)
        if strict and not _is_certain(rows, delimiter):
            continue
        score = count / len(rows) + min(width, 20) / 100
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _is_certain(rows: list[list[str]], delimiter: str) -> bool:
    widths = {len(row) for row in rows}
    if len(rows) < 3 or len(widths) != 1 or min(widths) < (2 if delimiter == "\t" else 3):
        return False
    cells = [cell for row in rows for cell in row]
    if not is_head(rows) or sum(map(len, cells)) > 40 * len(cells):
        return False
    # Prose may have the same number of commas in each line, but no column of numbers.
    columns = zip(*rows[1:], strict=True)
    return delimiter == "\t" or any(all(_NUMBER.fullmatch(cell) for cell in column) for column in columns)


def _without_hint(text: str) -> tuple[str, str]:
    """Excel's first line `sep=;` names the delimiter and is no row."""
    first, _, rest = text.lstrip("\ufeff\n").partition("\n")
    hint = first.strip().strip('"').lower()
    if hint.startswith("sep=") and len(hint) == 5:
        return rest, hint[4]
    return (text, "\t") if hint == "sep=" else (text, "")


def _rows(text: str, delimiter: str) -> Iterator[Numbered]:
    """Rows that hold something, with numbers; quotation marks are signs where one is never closed."""
    csv.field_size_limit(max(len(text) + 1, 131_072))
    rows: list[Numbered] = []
    lines = io.StringIO(text, newline="")
    for number, row in enumerate(csv.reader(lines, delimiter=delimiter, skipinitialspace=True), 1):
        if any("\n" in cell and _holds_rows(cell, delimiter, len(rows[0][1]) if rows else 0) for cell in row):
            return _plain_rows(text, delimiter)
        if any(cell.strip() for cell in row):
            rows.append((number, row))
    return iter(rows)


def _holds_rows(cell: str, delimiter: str, width: int) -> bool:
    """Whether a cell of many lines is rows that a stray quotation mark swallowed."""
    inner = cell.split("\n")[1:-1]
    alike = sum(1 for line in inner if line.count(delimiter) >= max(width - 1, 1))
    return len(inner) > 2 and alike * 5 > len(inner) * 4


def _plain_rows(text: str, delimiter: str) -> Iterator[Numbered]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, [cell.strip().strip('"') for cell in line.split(delimiter)]
