"""Where a text holds the words of a question (pure)."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from ragstone.terms import ADDED, analyze, folded, placed_terms


def highlights(question: str, text: str) -> list[tuple[int, int]]:
    """(start, end) of each stretch of `text` that full text finds for `question`, in order.

    Half-open, in code points of `text` as it is written: the stem of the question, the other
    Chinese script, full width or a part number without its dash still mark the words that
    stand there. Stretches that share a character are one; none are empty, none overlap.
    """
    wanted = frozenset(analyze(question))
    plain, starts, ends = _with_places(text)
    found: list[tuple[int, int]] = []
    for term, first, last in placed_terms(plain):
        if term not in wanted:
            continue
        start, end = starts[first], ends[last - 1]
        # Folding the parts is nearly folding the whole: what is not the same is left unmarked.
        if term not in analyze(text[start:end]):
            continue
        if found and start < found[-1][1]:
            start, end = found[-1][0], max(end, found.pop()[1])
        found.append((start, end))
    return found


def _with_places(text: str) -> tuple[str, list[int], list[int]]:
    """The text as its terms are read from it, and where each character of that began and ended."""
    characters: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for start, end in _clusters(text):
        piece = folded(text[start:end])
        characters += piece
        starts += [start] * len(piece)
        ends += [end] * len(piece)
    whole = "".join(characters)
    for match in reversed(list(ADDED.finditer(whole))):
        for kept in (characters, starts, ends):
            del kept[slice(*match.span())]
    return "".join(characters), starts, ends


def _clusters(text: str) -> Iterator[tuple[int, int]]:
    """A character with the marks behind it, which folding may join with it."""
    if text.isascii():
        yield from ((at, at + 1) for at in range(len(text)))
        return
    start = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or not _joins(text[at]):
            yield start, at
            start = at


@lru_cache(maxsize=10_000)
def _joins(char: str) -> bool:
    """Whether the character can become one with those before it: a mark, or a later part of a hangul."""
    first = unicodedata.normalize("NFKD", char)[0]
    return unicodedata.category(first)[0] == "M" or "\u1160" <= first <= "\u11ff"
