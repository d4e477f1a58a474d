"""Cleaners: from document to document before it is split. Page and heading spans follow every change.

`clean` is the default and safe for every document; `ragstone parse` prints what it
leaves, and all offsets count in that text. Further cleaners are functions of the same
shape; `edited` does their bookkeeping.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate

from ragstone.protocols import Cleaner
from ragstone.types import Document

# One match is a whole run of line ends with the blanks around them. It starts at the
# first blank, never in the middle of blanks, so that long runs of spaces cost one pass.
_LINE_ENDS = re.compile(
    r"(?:(?<![^\S\r\n])[^\S\r\n]++)?(?:\r\n?|\n)(?:[^\S\r\n]*+(?:\r\n?|\n))*+(?:[^\S\r\n]++\Z)?"
    r"|(?<![^\S\r\n])[^\S\r\n]++\Z"
)
_LINE_END = re.compile(r"\r\n?|\n")


def clean(document: Document) -> Document:
    """Line ends become `\\n`, blanks at line ends go, three or more blank lines become one."""
    return edited(document, _edits(document.text))


def _edits(text: str) -> Iterable[tuple[int, int, str]]:
    for match in _LINE_ENDS.finditer(text):
        count = len(_LINE_END.findall(match[0]))
        if match.start() == 0 or match.end() == len(text):
            yield match.start(), match.end(), ""
        else:
            yield match.start(), match.end(), "\n" * (count if count <= 3 else 2)


def edited(document: Document, edits: Iterable[tuple[int, int, str]]) -> Document:
    """`document` with `text[start:end]` replaced by a new text for each edit.

    Edits stand in order and do not overlap. A span that ends inside an edit ends after
    the new text; one that starts inside it starts there too.
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
