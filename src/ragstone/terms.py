"""Text to the terms full text is searched by (pure).

Documents and questions go through the same function in every store, so they agree.
Text is brought to NFKC and case-folded. A run of letters and digits is one term; a run
of Han, kana or hangul becomes its overlapping pairs of characters, because such text
has no spaces and a pair is found where a word list would not know the word. A run of a
single such character is a term by itself.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

MAX_TERM_LENGTH = 128
"""Code points; longer runs (encoded data, mostly) are cut, in documents and questions alike."""

_CJK = (
    r"\u3005\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_RUN = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_PAIRED = re.compile(rf"[{_CJK}]")

_STOP_WORDS = """
an and are as at be by for from in is of on or that the this to was were with
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that stand in most passages: they cost time and tell passages apart badly.

"a" and "it" are not among them: A股, vitamin A, IT department.
"""


def analyze(text: str) -> list[str]:
    """The terms of `text`, in order and with repetitions; empty where there is nothing to find."""
    return list(_terms(_folded(text)))


def _folded(text: str) -> str:
    # Folding can undo the normal form (and marks alone split a word), hence twice.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    if folded.isascii():
        return folded
    return "".join(_letter(char) for char in folded)


def _letter(char: str) -> str:
    # Vowel signs and other marks belong to the word they stand in, though \w leaves them out:
    # they are dropped, so that a word with marks stays one run.
    return "" if unicodedata.category(char) in ("Mn", "Mc", "Me", "Cf") else char


def _terms(text: str) -> Iterator[str]:
    for match in _RUN.finditer(text):
        run = match[0]
        if not _PAIRED.match(run):
            if run not in STOP_WORDS:
                yield run[:MAX_TERM_LENGTH]
        elif len(run) == 1:
            yield run
        else:
            yield from (run[at : at + 2] for at in range(len(run) - 1))
