"""How long a stretch of a text is, in characters or in tokens (pure).

Positions are code points. Tokens are counted from the offsets of the whole text, read
once; a stretch on its own may tokenize a little differently, which `exact` tells.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from typing import Protocol

from ragstone.protocols import Tokenizer

# Offsets are read in stretches of this many characters, so that the memory they need
# while they are Python tuples stays small.
_STRETCH = 65_536

_SPACES = " \n"
_SPACE = re.compile(f"[{_SPACES}]")


class Sizes(Protocol):
    """Measures stretches of one text."""

    def size(self, start: int, end: int) -> int:
        """The size of `text[start:end]`, nearly; no more than a look-up."""
        ...

    def exact(self, start: int, end: int) -> int:
        """The size of `text[start:end]` on its own."""
        ...

    def reach(self, start: int, limit: int) -> int:
        """The furthest end for which `size(start, end) <= limit`."""
        ...

    def back(self, end: int, limit: int) -> int:
        """The earliest start for which `size(start, end) <= limit`."""
        ...


class Characters:
    """Sizes in code points."""

    def __init__(self, text: str) -> None:
        self._length = len(text)

    def size(self, start: int, end: int) -> int:
        return end - start

    def exact(self, start: int, end: int) -> int:
        return end - start

    def reach(self, start: int, limit: int) -> int:
        return min(start + limit, self._length)

    def back(self, end: int, limit: int) -> int:
        return max(0, end - limit)


class Tokens:
    """Sizes in tokens of a tokenizer."""

    def __init__(self, text: str, tokenizer: Tokenizer) -> None:
        self._text = text
        self._tokenizer = tokenizer
        self._starts = array("q")
        self._ends = array("q")
        # Where words are cut by themselves, whole ones need not be counted again.
        self._words = bool(getattr(tokenizer, "independent_words", False))
        begin = 0
        while begin < len(text):
            end = _stretch_end(text, begin)
            self._words = self._words and (end == len(text) or text[end - 1] in _SPACES)
            offsets = tokenizer.offsets(text[begin:end])
            self._starts.extend([begin + start for start, _ in offsets])
            self._ends.extend([begin + stop for _, stop in offsets])
            begin = end

    def size(self, start: int, end: int) -> int:
        return bisect_left(self._starts, end) - bisect_right(self._ends, start)

    def exact(self, start: int, end: int) -> int:
        text, count = self._text, self._tokenizer.count
        if self._words:
            first = _SPACE.search(text, start, end)
            last = max(text.rfind(space, start, end) for space in _SPACES)
            if first and first.start() < last:
                middle = self.size(first.start(), last)
                return count(text[start : first.start()]) + middle + count(text[last:end])
        return count(text[start:end])

    def reach(self, start: int, limit: int) -> int:
        beyond = bisect_right(self._ends, start) + limit
        return self._starts[beyond] if beyond < len(self._starts) else len(self._text)

    def back(self, end: int, limit: int) -> int:
        first = bisect_left(self._starts, end) - limit
        return self._starts[first] if first > 0 else 0


def _stretch_end(text: str, begin: int) -> int:
    """Where a stretch that begins at `begin` ends: at a line or word end where there is one."""
    end = begin + _STRETCH
    if end >= len(text):
        return len(text)
    for mark in ("\n", " ", "。"):
        found = text.rfind(mark, begin + _STRETCH // 2, end)
        if found >= 0:
            return found + 1
    return end
