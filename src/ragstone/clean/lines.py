"""Words and Chinese sentences that a line's end has cut in two."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

from ragstone.clean.edits import Edit, edited, revised
from ragstone.sentences import fenced
from ragstone.types import Document

WIDTH = 20
"""Characters: a shorter Chinese line ends where its writer ended it."""

RAGGED = 3
"""Characters by which a wrapped Chinese line may fall short of the longest, for a mark that must not
begin a line or a number that is not divided."""

_SOFT_HYPHEN = re.compile("\u00ad[ \t]*\n?|\u200b")
_HYPHEN = re.compile(r"(?<![^\W\d_]-)\b([^\W\d_]{2,})[-\u2010]\n(?=([^\W\d_]{2,}))")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_PARAGRAPH = re.compile(r"(?:[^\n]*\S[^\n]*(?:\n|\Z))+")
_CJK = "\u2e80-\u9fff\uf900-\ufaff\uff01-\uffef"
_CJK_BREAK = re.compile(rf"(?<=[{_CJK}“”‘’—])(?<![。！？；：…])\n(?=[{_CJK}“‘—])")
_ALONE = re.compile(
    r"[ \t\u3000]*(?:[#|>]|[-*+•][ \t]|\d{1,3}[.)、]|[（(]?[一二三四五六七八九十]{1,3}[、）)])"
)


@revised("join_lines/1")
def join_lines(document: Document) -> Document:
    """Joins a word that a hyphen divides at a line's end, and Chinese lines wrapped to one width.

    The hyphen of a word that is written with it elsewhere in the text stays. Chinese
    lines are joined without a space, and only where the lines of a paragraph are of one
    length. Code, tables, headings and lists stay as they are.
    """
    text = document.text
    if "\u00ad" in text or "\u200b" in text:
        document = edited(
            document, ((match.start(), match.end(), "") for match in _SOFT_HYPHEN.finditer(text))
        )
    text = document.text
    code = fenced(text)[::-1]
    edits = sorted({*_hyphens(text), *_wrapped(text)})
    return edited(document, (edit for edit in edits if not _inside(edit[0], code)))


def _hyphens(text: str) -> Iterator[Edit]:
    if "-\n" not in text and "\u2010\n" not in text:
        return
    words = {word.casefold() for word in _WORD.findall(text)}
    for match in _HYPHEN.finditer(text):
        first, second = match[1], match[2]
        if not second[0].islower():
            continue
        whole, parted = (first + second).casefold(), f"{first}-{second}".casefold()
        keeps = parted in words and whole not in words
        yield match.end() - 1 if keeps else match.end() - 2, match.end(), ""


def _wrapped(text: str) -> Iterator[Edit]:
    for paragraph in _PARAGRAPH.finditer(text):
        if not _CJK_BREAK.search(paragraph.group()):
            continue
        lines = list(re.finditer(r"[^\n]+", paragraph.group()))
        longest = max(len(line.group().rstrip()) for line in lines)
        for line, following in pairwise(lines):
            broken = paragraph.start() + line.end()
            wrapped = longest >= WIDTH and len(line.group().rstrip()) >= longest - RAGGED
            alone = _ALONE.match(following.group()) or line.group().startswith(("#", "|"))
            if wrapped and not alone and _CJK_BREAK.match(text, broken):
                yield broken, broken + 1, ""


def _inside(position: int, spans: list[tuple[int, int]]) -> bool:
    found = bisect_right(spans, position, key=_start) - 1
    return found >= 0 and position < spans[found][1]


def _start(span: tuple[int, int]) -> int:
    return span[0]
