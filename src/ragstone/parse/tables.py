"""Rows of cells as text that can be searched: a Markdown table, or one block of `name: value` lines a row.

A table that is split later can be given its head again, so most rows become a Markdown
table. Where a row is long or has many columns a value would stand too far from its
column's name; there each row becomes a block of its own with the names written out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from ragstone.parse.outline import Outline

MAX_COLUMNS = 25
"""Columns beyond which each value is written with its column's name."""
MAX_ROW = 600
"""Mean characters of a row beyond which the same is done."""

Row = Sequence[str]
Numbered = tuple[int, list[str]]
"""A row of a spreadsheet and its number, from 1."""

_YEAR = re.compile(r"(?:19|20)\d\d")
_NUMBER = re.compile(r"[^\w\s]{0,3}\d[\d.,:/\s%-]*(?:[A-Za-z%°€$£¥]{0,3})\)?")


def without_end(rows: list[Numbered]) -> list[Numbered]:
    """The rows up to the last that holds something."""
    while rows and not any(rows[-1][1]):
        rows.pop()
    return rows


def write_sheet(outline: Outline, rows: Sequence[Numbered]) -> None:
    """The rows of a sheet: blank rows part it into blocks, each text or a table.

    A block without a head of its own, as wide as the table before it, goes on with that
    table's head.
    """
    head: Row | None = None
    for numbers, held in _blocks(rows):
        columns = [index for index in range(max(map(len, held))) if any(_at(row, index) for row in held)]
        block = [[_at(row, index) for index in columns] for row in held]
        first = next((index for index, row in enumerate(block) if _filled(row) > 1), len(block))
        if first == len(block):
            _write_column(outline, block, numbers, alone=len(columns) == 1)
            continue
        for number, row in zip(numbers, block[:first], strict=False):
            text = " ".join(cell for cell in row if cell)
            outline.block(text, rows=_every(number, text))
        body, numbers = block[first:], numbers[first:]
        if is_head(body):
            head, body = body[0], body[1:]
            if not body:
                outline.block(_line(head), rows=numbers)
                continue
        else:
            numbers = [0, *numbers]
            if head is None or len(head) != len(columns):
                head = [""] * len(columns)
        write_table(outline, head, body, numbers)


def write_table(outline: Outline, head: Row, body: Sequence[Row], numbers: Sequence[int] = ()) -> None:
    """A table under the names of `head`, as Markdown or as blocks of `name: value`.

    `numbers` are those of head and body in a spreadsheet, 0 for a head that is no row of its own.
    """
    width = max([len(head), *map(len, body)])
    sample = body[:200]
    mean = sum(len(cell) for row in sample for cell in row) / max(len(sample), 1)
    if any(head) and (width > MAX_COLUMNS or mean > MAX_ROW):
        for place, row in enumerate(body, 1):
            text = "\n".join(_named(head, row))
            outline.block(text, rows=_every(numbers[place], text) if numbers else ())
        return
    lines = [_line(head, width), "|" + " --- |" * width]
    lines += (_line(row, width) for row in body)
    outline.block("\n".join(lines), rows=[numbers[0], 0, *numbers[1:]] if numbers else ())


def _every(number: int, text: str) -> list[int]:
    return [number] * (text.count("\n") + 1)


def is_head(rows: Sequence[Row]) -> bool:
    """Whether the first row names the columns: mostly filled, no numbers but years, no value twice."""
    first = [cell.strip() for cell in rows[0]]
    filled = [cell for cell in first if cell]
    named = [cell for cell in filled if not _YEAR.fullmatch(cell)]  # years stand over columns too
    if len(filled) * 2 < len(first) or any(_NUMBER.fullmatch(cell) for cell in named):
        return False
    if not named and len(filled) == len(first):
        return False
    return len(set(filled)) == len(filled) and not any(len(cell) > 200 for cell in filled)


def _blocks(rows: Sequence[Numbered]) -> Iterator[tuple[list[int], list[list[str]]]]:
    """(numbers, rows) of what stands between blank rows."""
    for filled, group in groupby(rows, key=lambda row: _filled(row[1]) > 0):
        if filled:
            numbers, block = zip(*group, strict=True)
            yield list(numbers), list(block)


def _write_column(outline: Outline, block: list[list[str]], numbers: list[int], *, alone: bool) -> None:
    """Rows of one cell each: a list of short values is a table, the rest are lines of text."""
    cells = ["".join(row) for row in block]
    short = sum(map(len, cells)) < 40 * len(cells)
    if alone and short and len(cells) > 2 and is_head(block):
        write_table(outline, cells[:1], block[1:], numbers)
    else:
        outline.block("\n".join(" ".join(cell.split()) for cell in cells), rows=numbers)


def _named(head: Row, row: Row) -> list[str]:
    lines: list[str] = []
    for index, cell in enumerate(row):
        value, name = " ".join(cell.split()), " ".join(_at(head, index).split())
        if value:
            lines.append(f"{name}: {value}" if name else value)
    return lines


def _line(row: Row, width: int = 0) -> str:
    cells = [" ".join(cell.split()).replace("|", "\\|") if cell else "" for cell in row]
    return "| " + " | ".join(cells + [""] * (width - len(cells))) + " |"


def _at(row: Row, index: int) -> str:
    return row[index] if index < len(row) else ""


def _filled(row: Row) -> int:
    return sum(1 for cell in row if cell and not cell.isspace())
