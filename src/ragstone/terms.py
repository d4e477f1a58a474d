"""Text to the terms full text is searched by (pure).

Documents and questions go through the same function in every store, so they agree.
Text is brought to NFKC and case-folded, Traditional Chinese characters to Simplified ones.

- A run of letters and digits is one term; an English word is brought to its stem.
- A run of Han, kana or hangul becomes its overlapping pairs of characters, because such
  text has no spaces and a pair is found where a word list would not know the word. A run
  of a single such character is a term by itself.
- Words joined by `-`, `_`, `/`, `.`, `@` or `+` (part numbers, addresses, versions) give a
  term as a whole in front of their parts, so that the exact one ranks first. In it `-`, `_`
  and `/` are left out where there is a letter: e-mail is email, AB-1203/7 is AB12037.
- So do C++, C# and .NET.

`TERMS_REVISION` changes whenever a text gives other terms than before: what is stored then
has to be indexed anew.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files

from ragstone.stem import stem

TERMS_REVISION = "terms/2"

MAX_TERM_LENGTH = 128
"""Code points; longer runs (encoded data, mostly) are cut, in documents and questions alike."""

_CJK = (
    r"\u3005\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_RUN = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_PAIRED = re.compile(rf"[{_CJK}]")
# A whole that is made of several words, or a word with a sign that belongs to it.
_LETTER = rf"[^\W_{_CJK}]"
_WHOLE = re.compile(
    # Possessive, and only from the beginning of a word: never the same letters twice.
    rf"(?<!{_LETTER}){_LETTER}++(?:(?:[-_./@+]++{_LETTER}++)++|(?:\+\+|\#)(?!{_LETTER}))"
    rf"|(?<![\w.])\.(?!\d){_LETTER}{{2,}}+"
)
_JOINTS = re.compile(r"[-_/]")
# What an apostrophe adds to an English word: the city's, don't, we've.
ADDED = re.compile(r"(?<=[a-z])['\u2019](?:s|t|re|ve|ll|d|m)\b")

_STOP_WORDS = """
an and are as at be been being but by did do does for from had has have he her his how in
into is its me my not of on or our she than that the their them then there these they this
those to was we were what when where which whom whose why with you your
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that stand in most passages: they cost time and tell passages apart badly.

"a", "i", "it", "us" and "who" are not among them: A股, vitamin A, Elizabeth I, IT department, WHO.
"""


def analyze(text: str) -> list[str]:
    """The terms of `text`, in order and with repetitions; empty where there is nothing to find."""
    return list(_terms(folded(text)))


def folded(text: str) -> str:
    """The text in the form whose runs are its terms."""
    # Folding can undo the normal form (and marks alone split a word), hence twice.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    if folded.isascii():
        return folded
    return folded.translate(_letters())


class _Letters(dict[int, int | str | None]):
    """What becomes of each character; one that was not met before is looked up once.

    Vowel signs and other marks belong to the word they stand in, though \\w leaves them out: they are
    dropped, so that a word with marks stays one run.
    """

    def __missing__(self, code: int) -> int | None:
        kept = None if unicodedata.category(chr(code)) in ("Mn", "Mc", "Me", "Cf") else code
        self[code] = kept
        return kept


@lru_cache
def _letters() -> _Letters:
    """Traditional character -> Simplified; the file holds lines of the one above lines of the other."""
    lines = (files("ragstone") / "han.txt").read_text(encoding="utf-8").splitlines()
    return _Letters(
        (ord(one), other)
        for above, below in zip(lines[::2], lines[1::2], strict=True)
        for one, other in zip(above, below, strict=True)
    )


def _terms(text: str) -> Iterator[str]:
    return (term for term, _, _ in placed_terms(ADDED.sub("", text)))


def placed_terms(text: str) -> Iterator[tuple[str, int, int]]:
    """(term, start, end) of folded text without what `ADDED` finds."""
    wholes = list(_WHOLE.finditer(text))[::-1]
    for match in _RUN.finditer(text):
        while wholes and wholes[-1].start() <= match.start():
            whole = wholes.pop()
            yield _joined(whole[0]), *whole.span()
        run, start = match[0], match.start()
        if _PAIRED.match(run):
            for at in range(max(1, len(run) - 1)):
                pair = run[at : at + 2]
                yield pair, start + at, start + at + len(pair)
        elif run not in STOP_WORDS:
            yield stem(run)[:MAX_TERM_LENGTH], *match.span()


def _joined(whole: str) -> str:
    """`whole` as one term; between digits the signs stay, so that 1/2 is not 12."""
    if any(char.isalpha() for char in whole):
        whole = _JOINTS.sub("", whole)
    return whole[:MAX_TERM_LENGTH]
