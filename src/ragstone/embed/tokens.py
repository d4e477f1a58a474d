"""The tokenizer of multilingual-e5-small: a unigram model over normalised words.

It is written in Python on purpose. Looking words up in one dict costs about 1% of what
embedding them costs, and opening it takes a tenth of the time and memory that the same
vocabulary takes as a compiled trie, which every short command would pay.

A text is brought to NFKC, control characters are dropped, everything that acts as a
space becomes one, and each word is cut into the pieces whose log probabilities have the
highest sum (Kudo 2018, https://arxiv.org/abs/1804.10959). All steps take time in
proportion to the text's length, with or without spaces in it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

SPACE = "\u2581"
"""Stands for the space in front of a word, in the vocabulary's spelling."""

Piece: TypeAlias = tuple[int, int, int]
"""(id, start, end) in a word that begins with `SPACE`."""

_DROPPED = "\x00"
_UNKNOWN_PENALTY = 10.0
_CACHED_WORDS = 20_000
_CACHED_LENGTH = 24
_WORD = re.compile("[^ ]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A normalised word, with where each of its characters came from.

    `starts[i]` and `ends[i]` bound the source of `text[i]`. An unchanged word has only
    its `offset`.
    """

    text: str
    offset: int
    spans: tuple[Sequence[int], Sequence[int]] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The source of `text[start:end]`, not empty."""
        if self.spans is None:
            return self.offset + start, self.offset + end
        return self.spans[0][start], self.spans[1][end - 1]


class Folding(dict[int, str]):
    """One character to one: a table for `str.translate` that fills itself.

    What has no one-character form is left as it is, to be folded with its neighbours.
    """

    def __init__(self, spaces: str, dropped: str) -> None:
        super().__init__()
        self._spaces = frozenset(spaces)
        self._dropped = frozenset(dropped)

    def __missing__(self, code: int) -> str:
        character = chr(code)
        folded = unicodedata.normalize("NFKC", character)
        if character in self._dropped or code == 0:
            folded = _DROPPED
        elif folded.isspace() or folded in self._spaces or 0xD800 <= code <= 0xDFFF:
            folded = " "
        elif len(folded) != 1:
            folded = character
        self[code] = folded
        return folded


class Single(dict[str, tuple[int, float]]):
    """The piece that one character is, with its score. Fills itself: a text has few different ones,
    and a small table is read much faster than the vocabulary."""

    def __init__(self, pieces: dict[str, int], scores: Sequence[float], unknown: int) -> None:
        super().__init__()
        self._pieces, self._scores = pieces, scores
        # No piece scores as low as an unknown character.
        self._unknown = unknown, min(scores) - _UNKNOWN_PENALTY

    def __missing__(self, character: str) -> tuple[int, float]:
        piece = self._pieces.get(character)
        found = self._unknown if piece is None else (piece, self._scores[piece])
        self[character] = found
        return found


class UnigramTokenizer:
    """Implements `protocols.Tokenizer`, and gives ids to the model. Safe to share between threads.

    `pieces` maps each piece to its id, `scores` its id to its log probability; `unknown`
    is the id for characters that no piece holds (neighbours share one).
    """

    independent_words = True
    """What stands between spaces is cut by itself: a splitter need not count it twice."""

    def __init__(
        self, *, pieces: dict[str, int], scores: Sequence[float], unknown: int, spaces: str, dropped: str
    ) -> None:
        self._pieces = pieces
        self._scores = scores
        self._unknown = unknown
        self._single = Single(pieces, scores, unknown)
        self._longest = _longest(pieces)
        self._folding = Folding(spaces, dropped)
        self._cut_short = lru_cache(_CACHED_WORDS)(self._cut)

    def ids(self, text: str) -> list[int]:
        return [piece[0] for word in self._words(text) for piece in self._cut_word(word.text)]

    def rarest(self, ids: Sequence[int], most: int) -> list[int]:
        """The places of the `most` least probable pieces, in order; all places where there are no more."""
        places = sorted(range(len(ids)), key=lambda place: self._scores[ids[place]])[:most]
        return sorted(places)

    def count(self, text: str) -> int:
        return sum(len(self._cut_word(word.text)) for word in self._words(text))

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Offsets count code points of `text` as it was given.

        The mark of a word's beginning may be a token alone; it then covers the space
        before the word, or nothing where there is none.
        """
        offsets: list[tuple[int, int]] = []
        last = 0
        for word in self._words(text):
            pieces = self._cut_word(word.text)
            _, _, end = pieces[0]
            span = word.span(0, max(end - 1, 1))
            if end == 1 and span[0] >= last:
                span = (max(last, span[0] - 1), span[0])
            offsets.append(span)
            if word.spans is None:
                before = word.offset - 1
                offsets += [(before + start, before + end) for _, start, end in pieces[1:]]
            else:
                offsets += [word.span(start - 1, end - 1) for _, start, end in pieces[1:]]
            last = offsets[-1][1]
        return offsets

    def _words(self, text: str) -> Iterator[Word]:
        folded = text.translate(self._folding)
        plain = _DROPPED not in folded and unicodedata.is_normalized("NFKC", folded)
        for match in _WORD.finditer(folded):
            word = match.group()
            if plain or (_DROPPED not in word and unicodedata.is_normalized("NFKC", word)):
                yield Word(text=word, offset=match.start())
            else:
                yield from self._composed(word, match.start())

    def _composed(self, word: str, offset: int) -> Iterator[Word]:
        """Words of what NFKC makes of `word`: it may join characters, and part them with spaces."""
        text, starts, ends = _compose(word, offset)
        folded = text.translate(self._folding)
        for match in _WORD.finditer(folded):
            start, end = match.span()
            yield Word(text=match.group(), offset=starts[start], spans=(starts[start:end], ends[start:end]))

    def _cut_word(self, word: str) -> tuple[Piece, ...]:
        return self._cut_short(word) if len(word) <= _CACHED_LENGTH else self._cut(word)

    def _cut(self, word: str) -> tuple[Piece, ...]:
        """The likeliest pieces, by dynamic programming from left to right."""
        text = SPACE + word
        length = len(text)
        find, scores, longest, single = self._pieces.get, self._scores, self._longest, self._single
        best = [float("-inf")] * (length + 1)
        best[0] = 0.0
        origin = [0] * (length + 1)
        chosen = [self._unknown] * (length + 1)
        for start in range(length):
            reached = best[start]
            piece, score = single[text[start]]
            score += reached
            if score > best[start + 1]:
                best[start + 1], origin[start + 1], chosen[start + 1] = score, start, piece
            size = longest.get(text[start : start + 2])
            if size is None:
                continue
            for end in range(start + 2, min(length, start + size) + 1):
                piece = find(text[start:end])
                if piece is not None:
                    score = reached + scores[piece]
                    if score > best[end]:
                        best[end], origin[end], chosen[end] = score, start, piece
        return self._walk_back(origin, chosen)

    def _walk_back(self, origin: list[int], chosen: list[int]) -> tuple[Piece, ...]:
        pieces: list[Piece] = []
        end = len(origin) - 1
        while end > 0:
            start, piece = origin[end], chosen[end]
            if pieces and piece == self._unknown == pieces[-1][0]:
                pieces[-1] = (piece, start, pieces[-1][2])
            else:
                pieces.append((piece, start, end))
            end = start
        return tuple(reversed(pieces))


def _longest(pieces: dict[str, int]) -> dict[str, int]:
    """The length of the longest piece that begins with the same two characters."""
    longest: dict[str, int] = {}
    get = longest.get
    for piece in pieces:
        length = len(piece)
        if length > get(piece[:2], 1):
            longest[piece[:2]] = length
    return longest


def _compose(word: str, offset: int) -> tuple[str, list[int], list[int]]:
    """`word` in NFKC without dropped characters, and where each character came from.

    Characters are normalised in small groups, so that a token's source stays narrow;
    where the groups influence each other, the whole word is one group.
    """
    bounds = [0, *(i for i in range(1, len(word)) if not _joins(word[i])), len(word)]
    groups = [(start, end, _normal(word[start:end])) for start, end in pairwise(bounds)]
    text = "".join(group for _, _, group in groups)
    whole = _normal(word)
    if text != whole:
        text, groups = whole, [(0, len(word), whole)]
    starts: list[int] = []
    ends: list[int] = []
    for start, end, group in groups:
        starts += [offset + start] * len(group)
        ends += [offset + end] * len(group)
    return text, starts, ends


def _joins(character: str) -> bool:
    """Whether NFKC may join it with what stands before: accents, and Korean vowels and finals."""
    return unicodedata.combining(character) != 0 or "\u1160" <= character <= "\u11ff"


def _normal(text: str) -> str:
    return unicodedata.normalize("NFKC", text.replace(_DROPPED, ""))
