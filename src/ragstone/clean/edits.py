"""What cleaners are made with: `edited` keeps pages, headings and boxes right, `chained` joins several."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeAlias, TypeVar

from ragstone.protocols import Cleaner
from ragstone.types import Document

Function = TypeVar("Function", bound=Callable[..., Any])

Edit: TypeAlias = tuple[int, int, str]
"""`text[start:end]` and what comes in its place."""


def edited(document: Document, edits: Iterable[Edit]) -> Document:
    """`document` with `text[start:end]` replaced by a new text for each edit.

    Edits stand in order and do not overlap. A span that ends inside an edit ends after
    the new text; one that starts inside it starts there too. A box of which nothing is
    left goes.
    """
    text = document.text
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    growths: list[int] = []
    last = 0
    for start, end, new in edits:
        if text[start:end] == new:
            continue
        parts += (text[last:start], new)
        starts.append(start)
        ends.append(end)
        growths.append(len(new) - (end - start))
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
    )


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
