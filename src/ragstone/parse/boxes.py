"""Boxes of a page's blocks, found again in the page's text (pure)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from ragstone.types import Box

_WORD = re.compile(r"[^\W_]+")
# Letters by which the ends of a block are found when the readers differ in its middle.
_END = 24


@dataclass(frozen=True, slots=True)
class Block:
    """What a reader saw in one region of a page: text, and x0, y0, x1, y1 in points from the top left."""

    text: str
    corners: tuple[float, float, float, float]


def located(text: str, blocks: Iterable[Block], *, page: int, offset: int) -> Iterator[Box]:
    """The box of each block whose letters stand in `text`, which begins at `offset` in the document.

    Letters and digits are compared alone, so that marks, spaces and line ends may differ.
    A block that is not found has no box.
    """
    words = [match.span() for match in _WORD.finditer(text)]
    flat = "".join(text[start:end] for start, end in words)
    before = list(accumulate((end - start for start, end in words), initial=0))
    cursor = 0

    def position(letter: int) -> int:
        word = bisect_right(before, letter) - 1
        return words[word][0] + letter - before[word]

    for block in blocks:
        letters = "".join(_WORD.findall(block.text))
        found = _found(flat, letters, cursor) or _found(flat, letters, 0)
        if found is None:
            continue
        start, cursor = found
        x0, y0, x1, y1 = (round(corner, 1) for corner in block.corners)
        yield Box(
            page=page,
            start=offset + position(start),
            end=offset + position(cursor - 1) + 1,
            x0=x0,
            y0=y0,
            x1=x1,
            y1=y1,
        )


def _found(flat: str, letters: str, cursor: int) -> tuple[int, int] | None:
    start = flat.find(letters, cursor) if letters else -1
    if start >= 0:
        return start, start + len(letters)
    if len(letters) < 2 * _END:
        return None
    start = flat.find(letters[:_END], cursor)
    if start < 0:
        return None
    # The other reader may have more or fewer letters between: hyphens, ligatures, notes.
    last = flat.find(letters[-_END:], start + _END, start + len(letters) * 3 // 2)
    return (start, last + _END) if last >= 0 else None
