"""Where a text may be cut, and how good each place is (pure)."""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise

from ragstone.sentences import line_breaks, sentences
from ragstone.types import Document

# Ranks of breaks, best first. A break is where a unit begins.
SECTION, PARAGRAPH, LINE, SENTENCE, WRAP, WORD, CHARACTER = range(7)

_NON_SPACE = re.compile(r"\S")
_ATX_HEADING = re.compile(r"#{1,6}[ \t]+\S")
_HEADING_LINE = re.compile(r"[^\n]*(?P<underline>\n[ \t]*(?:=+|-{2,})[ \t]*(?=\n|$))?")
_NOT_ALPHANUMERIC = re.compile(r"[\W_]+")
_CHINESE_STOP = "，、：；。！？…」』）】》”"
_WORD_START = re.compile(rf"(?:(?<=\s)|(?<=[{_CHINESE_STOP}])(?![{_CHINESE_STOP}]))\S")

_JOINERS = frozenset("\u200d\u200c")
_REGIONAL = range(0x1F1E6, 0x1F200)
_FLAG_LETTERS = 64
_SKIN_TONES = range(0x1F3FB, 0x1F400)


class Breaks:
    """The places where the text of a document may be cut, from rank `first` down."""

    def __init__(self, document: Document, first: int = SECTION) -> None:
        self._text = document.text
        self._first = first
        # Where the text under a heading begins: no place to cut.
        self._held: set[int] = set()
        # For each rank the breaks of this rank or a better one.
        self._starts = [array("q") for _ in range(SENTENCE + 1)]
        if first <= SENTENCE:
            ranks, self._held = _ranks(document)
            for position, rank in sorted(ranks.items()):
                for weaker in range(rank, SENTENCE + 1):
                    self._starts[weaker].append(position)

    def skip(self, position: int) -> int:
        """The first character from `position` on that is not white space; else the end."""
        match = _NON_SPACE.search(self._text, position)
        return match.start() if match else len(self._text)

    def best(self, low: int, high: int) -> tuple[int, int] | None:
        """The last break of the best rank in [low, high], with its rank; None where only characters are."""
        if low > high:
            return None
        for rank in range(self._first, SENTENCE + 1):
            if (position := self._last(rank, high)) >= low:
                return position, rank
        if self._first < WORD:
            newline = self._text.rfind("\n", low - 1, high)
            position = self.skip(newline + 1)
            if newline >= 0 and position not in self._held:
                return position, WRAP
        last = max((word for word in self.words(low, high) if word not in self._held), default=-1)
        return (last, WORD) if last >= 0 else None

    def section(self, high: int) -> int:
        """Where the last section that begins at or before `high` does; 0 where sections do not count."""
        return max(self._last(SECTION, high), 0) if self._first == SECTION else 0

    def _last(self, rank: int, high: int) -> int:
        starts = self._starts[rank]
        found = bisect_right(starts, high) - 1
        return starts[found] if found >= 0 else -1

    def units(self, low: int, high: int) -> list[int]:
        """Where sentences and better units begin in [low, high)."""
        starts = self._starts[SENTENCE]
        return list(starts[bisect_left(starts, low) : bisect_left(starts, high)])

    def next_unit(self, position: int) -> int:
        """Where the sentence or better unit after `position` begins; else the end of the text.

        When only words count, every word is such a unit.
        """
        if self._first > SENTENCE:
            return next(self.words(position + 1, len(self._text)), len(self._text))
        starts = self._starts[SENTENCE]
        found = bisect_right(starts, position)
        return starts[found] if found < len(starts) else len(self._text)

    def words(self, low: int, high: int) -> Iterator[int]:
        """Where words begin in [low, high]; a Chinese comma ends a word."""
        if self._first <= WORD:
            for match in _WORD_START.finditer(self._text, low, high + 1):
                yield match.start()

    def next_character(self, position: int, high: int) -> int:
        """Where the first visible character in [position, high) begins; `high` if none does."""
        while position < high and (self._text[position].isspace() or _joined(self._text, position)):
            position += 1
        return position

    def character(self, low: int, high: int) -> int:
        """The last place in [low, high] that is not inside a visible character; `high` if none is."""
        position = high
        while position >= low:
            if not _joined(self._text, position):
                return position
            position -= 1
        return high


def _ranks(document: Document) -> tuple[dict[int, int], set[int]]:
    """Position -> rank of every break down to sentences; and where text under a heading begins."""
    text = document.text
    ranks: dict[int, int] = {}
    held: set[int] = set()
    for (start, end), (following, _) in pairwise(sentences(text)):
        ranks.setdefault(following, _rank_of(text[end:following]))
        if _ATX_HEADING.match(text, start):
            held.add(following)
        if text[following] == "#" and _ATX_HEADING.match(text, following):
            ranks[following] = PARAGRAPH
    for span in document.headings:
        start = _skip(text, span.start)
        ranks[start] = SECTION
        line = _HEADING_LINE.match(text, start)
        if line and span.path and _names(line.group(), span.path[-1]):
            held.add(_skip(text, line.end()))
            if line["underline"]:
                held.add(_skip(text, line.start("underline")))
    for position in held:
        ranks.pop(position, None)
    return ranks, held


def _rank_of(gap: str) -> int:
    """The rank of a break from the white space in front of it."""
    lines = line_breaks(gap)
    return SENTENCE if lines == 0 else LINE if lines == 1 else PARAGRAPH


def _skip(text: str, position: int) -> int:
    match = _NON_SPACE.search(text, position)
    return match.start() if match else len(text)


def _names(line: str, heading: str) -> bool:
    """Whether the line is the heading, whatever the marks around it."""
    plain = _NOT_ALPHANUMERIC.sub("", heading).casefold()
    return bool(plain) and _NOT_ALPHANUMERIC.sub("", line).casefold() == plain


def _joined(text: str, position: int) -> bool:
    """Whether a cut at `position` would divide a visible character.

    Covers what texts hold in practice: combining marks, variation selectors, emoji
    sequences, flags, Hangul jamo, CR LF and surrogate pairs.
    """
    if not 0 < position < len(text):
        return False
    before, after = text[position - 1], text[position]
    if after < "\u0300":
        return before == "\r" and after == "\n"
    code = ord(after)
    if before in _JOINERS or after in _JOINERS or code in _SKIN_TONES:
        return True
    if unicodedata.category(after) in {"Mn", "Me", "Mc"}:
        return True
    if code in _REGIONAL:
        return _odd_flags_before(text, position)
    if 0x1160 <= code < 0x1200:
        return 0x1100 <= ord(before) < 0x1200
    return "\ud800" <= before < "\udc00" <= after < "\ue000"


def _odd_flags_before(text: str, position: int) -> bool:
    """Flags are pairs of letters: a cut is inside one after an odd number of them."""
    first = position
    # A longer row of flags is no text; looking further back would take quadratic time.
    least = max(0, position - _FLAG_LETTERS)
    while first > least and ord(text[first - 1]) in _REGIONAL:
        first -= 1
    return (position - first) % 2 == 1
