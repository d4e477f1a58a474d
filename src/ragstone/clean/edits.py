"""What cleaners are made with: `edited` keeps pages, headings and boxes right, `chained` joins several."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate
from typing import TypeAlias

from ragstone.protocols import Cleaner
from ragstone.types import Document

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


def chained(*cleaners: Cleaner) -> Cleaner:
    """One cleaner that applies `cleaners` in order; the first that drops the document ends it."""

    def clean_all(document: Document) -> Document | None:
        kept: Document | None = document
        for cleaner in cleaners:
            if kept is None:
                return None
            kept = cleaner(kept)
        return kept

    return clean_all
