"""Running headers, footers and page numbers, found by comparing the edges of pages."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragstone.clean.edits import edited, revised
from ragstone.types import Document, PageSpan

EDGE = 3
"""How many lines from the top and from the bottom of a page are looked at."""

SHARE = 0.6
"""The share of all pages, or of all left or right ones, that must have the line at the same place."""

LEAST = 3
"""Fewer pages than this prove nothing."""

_NUMBER = re.compile(r"\d+")
_LETTER = re.compile(r"[^\W\d_]")
_PAGE = "\x00"
# A page number alone, with the words that stand around it in English and Chinese.
_ONLY_NUMBER = re.compile(
    rf"(?:page|pages|p|pg|of|第|页|頁|共|总|總|[\s\d/|.,:·•*_()\[\]\-–—]|{_PAGE})*", re.IGNORECASE
)
# A page number set apart from the words beside it.
_APART = r"(?:[|/·•–—]|\*\*|\s{2,})"
_SET_APART = re.compile(rf"[\W\d]*{_PAGE}\s*{_APART}.*|.*{_APART}\s*{_PAGE}[\W\d]*")


@dataclass(frozen=True, slots=True)
class _Line:
    """A line near the edge of a page; `place` counts from the top, or below zero from the bottom."""

    page: int
    place: int
    start: int
    end: int
    text: str


@revised("drop_running_lines/1")
def drop_running_lines(document: Document) -> Document:
    """Takes away lines that stand at the same place on most pages, and page numbers there.

    Of a line that is the same everywhere the first stays, so that no word is lost. A line
    with a number goes only where the number counts the pages and stands alone or set
    apart. Rows of tables stay, and so does a page that would have nothing left.
    """
    if len(document.pages) < LEAST:
        return document
    lines = [line for page in document.pages for line in _edges(document.text, page)]
    keys = _keys(lines)
    running = _running(lines, keys, len({line.page for line in lines}))
    dropped = _dropped(lines, keys, running)
    spared = _bare_pages(document, dropped)
    gone = sorted({(line.start, line.end) for line in dropped if line.page not in spared})
    return edited(document, ((start, end, "") for start, end in gone))


def _edges(text: str, page: PageSpan) -> Iterator[_Line]:
    lines = [
        (match.start(), match.end(), match.group().strip())
        for match in re.finditer(r"[^\n]*\S[^\n]*", text[page.start : page.end])
    ]
    for index, (start, end, line) in enumerate(lines):
        for place in (index, index - len(lines)):
            if -EDGE <= place < EDGE and not line.startswith("|"):
                yield _Line(page.number, place, page.start + start, page.start + end, line)


def _keys(lines: Sequence[_Line]) -> list[str]:
    """What must be the same on all pages: the line, the number of the page taken out."""
    found = (
        {(line.page, int(number) - line.page) for number in _NUMBER.findall(line.text) if len(number) < 6}
        for line in lines
    )
    offsets = Counter(offset for _, offset in {pair for pairs in found for pair in pairs})
    offset = offsets.most_common(1)[0][0] if offsets else 0

    def key(line: _Line) -> str:
        number = str(line.page + offset)
        key = _NUMBER.sub(lambda match: _PAGE if match.group() == number else match.group(), line.text)
        # `Page 3 of 20`: on page 20 the total is the number of the page.
        return _NUMBER.sub(_PAGE, key) if _PAGE in key and _ONLY_NUMBER.fullmatch(key) else key

    return [key(line) for line in lines]


def _running(lines: Sequence[_Line], keys: Sequence[str], pages: int) -> set[tuple[int, str]]:
    """The places with the keys that most pages share."""
    seen: defaultdict[tuple[int, str], set[int]] = defaultdict(set)
    for line, key in zip(lines, keys, strict=True):
        seen[line.place, key].add(line.page)
    numbers = {line.page for line in lines}
    return {
        spot
        for spot, on in seen.items()
        if len(on) >= LEAST and (len(on) >= SHARE * pages or _one_side(on, numbers))
    }


def _one_side(on: set[int], pages: set[int]) -> bool:
    """Whether most of the left or of the right pages have it."""
    return any(
        sum(page % 2 == side for page in on) >= max(LEAST, SHARE * sum(page % 2 == side for page in pages))
        for side in (0, 1)
    )


def _dropped(lines: Sequence[_Line], keys: Sequence[str], running: set[tuple[int, str]]) -> list[_Line]:
    kept: dict[str, tuple[int, int]] = {}
    dropped: list[_Line] = []
    for line, key in zip(lines, keys, strict=True):
        if (line.place, key) not in running:
            continue
        if _PAGE in key:
            if line.text.startswith("#") or not (_ONLY_NUMBER.fullmatch(key) or _SET_APART.fullmatch(key)):
                continue
            if not _LETTER.search(_ONLY_NUMBER.sub("", key)):
                dropped.append(line)
                continue
        if kept.setdefault(key, (line.start, line.end)) != (line.start, line.end):
            dropped.append(line)
    return dropped


def _bare_pages(document: Document, dropped: Sequence[_Line]) -> set[int]:
    """Pages that would lose all their text."""
    gone: defaultdict[int, int] = defaultdict(int)
    for page, start, end in {(line.page, line.start, line.end) for line in dropped}:
        gone[page] += len("".join(document.text[start:end].split()))
    return {
        page.number
        for page in document.pages
        if gone[page.number]
        and gone[page.number] >= len("".join(document.text[page.start : page.end].split()))
    }
