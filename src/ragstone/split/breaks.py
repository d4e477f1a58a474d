"""Where a text may be cut, and how good each place is (pure)."""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

from ragstone.sentences import Span, blocks, breaks_within, fenced, last_break, line_breaks
from ragstone.split.tables import Table, tables
from ragstone.types import Document

# Ranks of breaks, best first. A break is where a unit begins.
SECTION, PARAGRAPH, LINE, SENTENCE, WRAP, WORD, CHARACTER = range(7)

_FILLED_LINE = re.compile(r"[^\s](?:[^\n\r\u2028\u2029]*[^\s])?")
_FIRST_WORD = re.compile(r"[\u2e80-\U0003ffff]|\S{1,80}")
_RECORD_SHARE = 0.6
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
    """The places where the text of a document may be cut, from rank `first` down.

    With a `pattern`, the ends of its matches are the paragraphs, and the only ones.
    Sentences are found when they are asked for: most texts are cut at paragraphs.
    """

    def __init__(
        self, document: Document, first: int = SECTION, pattern: re.Pattern[str] | None = None
    ) -> None:
        self._text = text = document.text
        self._first = first
        # Where the text under a heading, or the body of a table, begins: no place to cut.
        self._held: set[int] = set()
        # For each rank down to LINE the breaks of this rank or a better one.
        self._starts = [array("q") for _ in range(LINE + 1)]
        self._blocks: list[tuple[int, int, bool]] = []
        self._block_starts = array("q")
        self._free_starts = array("q")
        self._atoms: list[Span] = []
        self._bodies: set[int] = set()
        self.tables: list[Table] = []
        if first > SENTENCE:
            return
        fences = fenced(text)[::-1]
        self._blocks = list(blocks(text))
        if first <= LINE and pattern is None:
            self._blocks = list(_by_lines(text, self._blocks, always=first == LINE))
        self._block_starts.extend(block[0] for block in self._blocks)
        self.tables = tables(text, fences)
        self._atoms = sorted([*fences, *_table_atoms(self.tables)])
        ranks = self._ranked(document, fences) if pattern is None else _matched(text, pattern)
        for position, rank in sorted(ranks.items()):
            for weaker in range(rank, LINE + 1):
                self._starts[weaker].append(position)
        self._free_starts = array("q", (start for start in self._block_starts if start not in self._held))

    def _ranked(self, document: Document, fences: list[Span]) -> dict[int, int]:
        """Position -> rank of every break down to lines; fills what is held."""
        text, held = self._text, self._held
        ranks: dict[int, int] = {}
        heading, before = False, 0
        code = {start for start, _, _ in _between(self._blocks, fences)}
        for start, end, _ in self._blocks:
            ranks[start] = _rank_of(text[before:start])
            if heading:
                held.add(start)
            heading = text[start] == "#" and start not in code and bool(_ATX_HEADING.match(text, start))
            if heading:
                ranks[start] = PARAGRAPH
            before = end
        for table in self.tables:
            self._bodies.add(table.body[0])
            held.update((table.delimiter[0], table.body[0]))
        for span in document.headings:
            start = self.skip(span.start)
            ranks[start] = SECTION
            line = _HEADING_LINE.match(text, start)
            if line and span.path and _names(line.group(), span.path[-1]):
                held.add(self.skip(line.end()))
                if line["underline"]:
                    held.add(self.skip(line.start("underline")))
        for position in held:
            ranks.pop(position, None)
        return ranks

    def skip(self, position: int) -> int:
        """The first character from `position` on that is not white space; else the end."""
        match = _NON_SPACE.search(self._text, position)
        return match.start() if match else len(self._text)

    def best(self, low: int, high: int) -> tuple[int, int] | None:
        """The last break of the best rank in [low, high], with its rank; None where only characters are."""
        if low > high:
            return None
        for rank in range(self._first, LINE + 1):
            if (position := self._last(rank, high)) >= low:
                return position, rank
        if self._first <= SENTENCE and (position := self._last_sentence(low, high)) >= low:
            return position, SENTENCE
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

    def _last_sentence(self, low: int, high: int) -> int:
        """The last sentence or better unit that begins in [low, high]; -1 if none does."""
        while high >= low:
            number = bisect_right(self._block_starts, high) - 1
            if number < 0:
                return -1
            start, end, whole = self._blocks[number]
            if not whole:
                last = high
                while (last := last_break(self._text, (start, end), max(low, start + 1), last)) > 0:
                    if last not in self._held:
                        return last
                    last -= 1
            if start not in self._held:
                return start if start >= low else -1
            high = start - 1
        return -1

    def _inside(self, block: Span, low: int, high: int) -> Iterator[int]:
        if low <= high:
            for position in breaks_within(self._text, block, low, high):
                if position not in self._held:
                    yield position

    def units(self, low: int, high: int) -> Iterator[int]:
        """Where sentences and better units begin in [low, high)."""
        number = max(0, bisect_right(self._block_starts, low) - 1)
        while number < len(self._blocks) and self._blocks[number][0] < high:
            start, end, whole = self._blocks[number]
            if start >= low and start not in self._held:
                yield start
            if not whole:
                yield from self._inside((start, end), max(low, start + 1), high - 1)
            number += 1

    def next_unit(self, position: int, limit: int) -> int:
        """Where the sentence or better unit after `position` begins; some place behind `limit` if that does.

        When only words count, every word is such a unit. No further than `limit` is looked.
        """
        if self._first > SENTENCE:
            return next(self.words(position + 1, limit), max(limit, position) + 1)
        number = max(0, bisect_right(self._block_starts, position) - 1)
        for start, end, whole in self._blocks[number : number + 1]:
            if not whole and not self._begins_atom(position):
                inside = self._inside((start, end), max(position, start) + 1, min(end, limit))
                if found := next(inside, 0):
                    return found
        return self.next_block(position)

    def next_block(self, position: int) -> int:
        """Where the paragraph, item or line after the one at `position` begins; else the end of the text.

        A heading goes with the one below it, and fenced code is one.
        """
        if atom := self._begins_atom(position):
            return self.skip(atom[1])
        following = bisect_right(self._free_starts, position)
        return self._free_starts[following] if following < len(self._free_starts) else len(self._text)

    def _begins_atom(self, position: int) -> Span | None:
        atom = self.atom(position + 1)
        return atom if atom and atom[0] == position else None

    def atom(self, position: int) -> Span | None:
        """The row of a table or fenced code that a cut at `position` would divide."""
        found = bisect_left(self._atoms, (position, 0)) - 1
        if found < 0 or self._atoms[found][1] <= position:
            return None
        return self._atoms[found]

    def keeps(self, position: int) -> bool:
        """Whether what begins at `position` belongs to the heading above it."""
        return position in self._held and position not in self._bodies

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


def _by_lines(
    text: str, found: Iterable[tuple[int, int, bool]], *, always: bool
) -> Iterator[tuple[int, int, bool]]:
    """The blocks, those of lines that each say something of their own line by line; `always` all of them."""
    for start, end, whole in found:
        lines = [] if whole else [match.span() for match in _FILLED_LINE.finditer(text, start, end)]
        if len(lines) > 1 and (always or _records(text, lines)):
            yield from ((first, last, False) for first, last in lines)
        else:
            yield start, end, whole


def _records(text: str, lines: list[Span]) -> bool:
    """Whether the lines were ended on purpose, as in a log: the next word would have had room.

    In wrapped prose hardly a line has room for it, whatever the width.
    """
    width = max(end - start for start, end in lines)
    ended = 0
    for (start, end), (following, stop) in pairwise(lines):
        word = _FIRST_WORD.match(text, following, stop)
        ended += end - start + 1 + (word.end() - following if word else 0) <= width
    return ended >= _RECORD_SHARE * (len(lines) - 1)


def _matched(text: str, pattern: re.Pattern[str]) -> dict[int, int]:
    ends = (_NON_SPACE.search(text, match.end()) for match in pattern.finditer(text))
    return {found.start(): PARAGRAPH for found in ends if found}


def _table_atoms(found: Iterable[Table]) -> Iterator[Span]:
    for table in found:
        yield table.header
        yield from table.rows


def _between(found: list[tuple[int, int, bool]], fences: list[Span]) -> Iterator[tuple[int, int, bool]]:
    """The blocks inside a fence."""
    number = 0
    for start, end in fences:
        number = bisect_left(found, (start, 0, False), number)
        while number < len(found) and found[number][0] < end:
            yield found[number]
            number += 1


def _rank_of(gap: str) -> int:
    """The rank of a break from the white space in front of it."""
    if gap == "\n":
        return LINE
    lines = 2 if gap == "\n\n" else line_breaks(gap)
    return SENTENCE if lines == 0 else LINE if lines == 1 else PARAGRAPH


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
