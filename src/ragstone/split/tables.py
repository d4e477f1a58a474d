"""Markdown tables in a text: where their rows are, and the header to repeat (pure)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from ragstone.sentences import Span

_DELIMITER = re.compile(r"^[ \t]*\|(?:[ \t]*:?-+:?[ \t]*\|)+[ \t]*$", re.MULTILINE)
_ROW = re.compile(r"[ \t]*\|")


@dataclass(frozen=True, slots=True)
class Table:
    """A table in the text: its header's line, the delimiter's, and each row's, in order."""

    header: Span
    delimiter: Span
    rows: tuple[Span, ...]

    @property
    def body(self) -> Span:
        return (self.rows[0][0], self.rows[-1][1]) if self.rows else (self.delimiter[1], self.delimiter[1])


def tables(text: str, fences: list[Span]) -> list[Table]:
    """The tables of Markdown `text` outside `fences`, each with a header."""
    if "|" not in text:
        return []
    found: list[Table] = []
    last = 0
    for match in _DELIMITER.finditer(text):
        header = _line_before(text, match.start())
        if header is None or header[0] < last or _inside(header[0], fences):
            continue
        rows = tuple(_rows(text, match.end() + 1))
        found.append(Table(_trimmed(text, header), _trimmed(text, match.span()), rows))
        last = rows[-1][1] if rows else match.end()
    return found


def _line_before(text: str, position: int) -> Span | None:
    if position == 0:
        return None
    start = text.rfind("\n", 0, position - 1) + 1
    return (start, position - 1) if _ROW.match(text, start, position - 1) else None


def _rows(text: str, position: int) -> Iterator[Span]:
    while position < len(text) and _ROW.match(text, position):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        yield _trimmed(text, (position, end))
        position = end + 1


def _trimmed(text: str, span: Span) -> Span:
    line = text[slice(*span)]
    start = span[0] + len(line) - len(line.lstrip())
    return start, start + len(line.strip())


def _inside(position: int, spans: list[Span]) -> bool:
    found = bisect_right(spans, (position, len(spans) and spans[-1][1])) - 1
    return found >= 0 and spans[found][0] <= position < spans[found][1]
