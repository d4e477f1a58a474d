"""Markdown tables in a text that comes in pieces: told apart, so that a terminal can draw them (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_CELL_END = re.compile(r"(?<!\\)\|")
_DELIMITER = re.compile(r"\|(?:\s*:?-+:?\s*\|)+\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells; what stood behind a row is its last cell. `header` is empty where there is none."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class TableReader:
    """Text as it comes, and each table when its last row is there."""

    def __init__(self) -> None:
        self._held = ""
        self._lines: list[str] = []
        self._begins_line = True

    def feed(self, piece: str) -> Iterator[str | Table]:
        self._held += piece
        while self._held:
            if self._begins_line and self._held.startswith("|"):
                line, newline, rest = self._held.partition("\n")
                if not newline:
                    return
                self._lines.append(line)
                self._held = rest
                continue
            yield from self._drawn()
            line, newline, self._held = self._held.partition("\n")
            self._begins_line = bool(newline)
            yield line + newline

    def finish(self) -> Iterator[str | Table]:
        if self._held:  # only a row can be
            self._lines.append(self._held)
            self._held = ""
        yield from self._drawn()

    def _drawn(self) -> Iterator[Table]:
        lines, self._lines = self._lines, []
        if not lines:
            return
        headed = len(lines) > 1 and _DELIMITER.fullmatch(lines[1]) is not None
        rows = [_cells(line) for line in lines if not _DELIMITER.fullmatch(line)]
        header = rows.pop(0) if headed else []
        width = max(map(len, [header, *rows]))
        yield Table(
            header=[*header, *[""] * (width - len(header))] if headed else [],
            rows=[[*row, *[""] * (width - len(row))] for row in rows],
        )


def _cells(line: str) -> list[str]:
    cells = [cell.strip().replace("\\|", "|") for cell in _CELL_END.split(line)][1:]
    return cells if cells and cells[-1] else cells[:-1]
