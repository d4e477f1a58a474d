"""What cleaners are made with: `edited` keeps pages, headings, rows and boxes right; `chained` joins."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeAlias, TypeVar

from ragstone.place import RowSpan
from ragstone.protocols import Cleaner
from ragstone.types import Document

Function = TypeVar("Function", bound=Callable[..., Any])

Edit: TypeAlias = tuple[int, int, str]
"""`text[start:end]` and what comes in its place."""


def edited(document: Document, edits: Iterable[Edit]) -> Document:
    """`document` with `text[start:end]` replaced by a new text for each edit.

    Edits stand in order and do not overlap. A span that ends inside an edit ends after
    the new text; one that starts inside it starts there too. A box of which nothing is
    left goes, and so does a row.
    """
    text = document.text
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    growths: list[int] = []
    broken: tuple[list[int], list[int]] = [], []  # starts and ends of edits where lines come or go
    last = 0
    for start, end, new in edits:
        if text[start:end] == new:
            continue
        parts += (text[last:start], new)
        starts.append(start)
        ends.append(end)
        growths.append(len(new) - (end - start))
        if text.count("\n", start, end) != new.count("\n"):
            broken[0].append(start)
            broken[1].append(end)
        last = end
    if not starts:
        return document
    parts.append(text[last:])
    shifts = list(accumulate(growths, initial=0))

    def moved(offset: int) -> int:
        index = bisect_right(starts, offset) - 1
        if index < 0:
            return offset
        return (
            max(offset, ends[index]) + shifts[index + 1] if offset > starts[index] else offset + shifts[index]
        )

    return replace(
        document,
        text="".join(parts),
        pages=tuple(replace(span, start=moved(span.start), end=moved(span.end)) for span in document.pages),
        headings=tuple(
            replace(span, start=moved(span.start), end=moved(span.end)) for span in document.headings
        ),
        boxes=tuple(
            replace(box, start=moved(box.start), end=moved(box.end))
            for box in document.boxes
            if moved(box.start) < moved(box.end)
        ),
        rows=tuple(_moved_rows(document, *broken, moved)),
    )


def _moved_rows(
    document: Document, starts: list[int], ends: list[int], moved: Callable[[int], int]
) -> Iterator[RowSpan]:
    """The rows that are left. Where lines come or go, from `starts` to `ends`, each is told by itself."""
    for span in document.rows:
        touched = bisect_right(ends, span.start) < bisect_left(starts, span.end)
        for part in _lines(span, document.text) if touched and span.first < span.last else (span,):
            start, end = moved(part.start), moved(part.end)
            if start < end:
                yield replace(part, start=start, end=end)


def _lines(span: RowSpan, text: str) -> Iterator[RowSpan]:
    start = span.start
    for number, line in enumerate(text[span.start : span.end].split("\n"), span.first):
        yield RowSpan(first=number, last=number, start=start, end=start + len(line))
        start += len(line) + 1


@dataclass(frozen=True, slots=True)
class Chained:
    """The cleaner of `chained`."""

    cleaners: tuple[Cleaner, ...]

    def __call__(self, document: Document) -> Document | None:
        kept: Document | None = document
        for cleaner in self.cleaners:
            if kept is None:
                return None
            kept = cleaner(kept)
        return kept


def chained(*cleaners: Cleaner) -> Chained:
    """One cleaner that applies `cleaners` in order; the first that drops the document ends it."""
    return Chained(cleaners)


def revised(revision: str) -> Callable[[Function], Function]:
    """Names a function in the revisions of documents; the number is raised when its result changes."""

    def mark(function: Function) -> Function:
        setattr(function, "revision", revision)  # noqa: B010 (no type knows it)
        return function

    return mark
