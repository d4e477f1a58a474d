"""Where sentences begin and end, in Chinese, English and mixed text (pure).

A sentence ends at 。！？；… (and at . ! ? before a space), together with the closing
quotes and brackets behind it. Abbreviations, initials, decimals, versions, addresses
and dots that trail off do not end one. A line break within a paragraph is only a
wrapped line; a blank line, a heading, a list item, a table row and a line of fenced
code each end what came before. Time is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Span = tuple[int, int]

ITEM_LENGTH = 200
"""A list item of up to this many characters is one unit; a longer one is cut into its sentences."""

_LOOK_BACK = 24  # characters; no abbreviation is longer


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_LINE = re.compile(r"[^\n\r\u2028\u2029]+")
_LINE_BREAK = re.compile(r"\r\n|[\n\r\u2028\u2029]")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~).*$", re.MULTILINE)
_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[A-Za-z]+")
_WORD_BEFORE = re.compile(r"(?:[^\W\d_]|\.)+$|\d+$")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}")

_BLOCK_LINE = re.compile(
    r"""[ \t\u3000]*(?:
      (?P<line> \#{1,6}[ \t]                            # heading
              | \|                                      # table row
              | (?:={3,}|-{3,}|\*{3,}|_{3,})[ \t]*$ )   # rule, or underlined heading
    | (?P<item> [-*+•·◦▪‣][ \t]
              | \d{1,3}[.)．][ \t]
              | [A-Za-z]\)[ \t]
              | [(（][0-9A-Za-z一二三四五六七八九十]{1,3}[)）]
              | [0-9]{1,3}、 | [一二三四五六七八九十]{1,3}、
              | [①-⑳] )
    )""",
    re.VERBOSE,
)

_CLOSING = "”’」』）】》〉〕〗\"')\\]}»*_"
_MARK = re.compile(rf"(?P<marks>[。｡！？；…।॥؟۔!?.]+)(?:[{_CLOSING}]|\[\d{{1,3}}\])*")
_FULL_MARKS = frozenset("。｡！？；।॥؟۔")
_GOES_ON = frozenset("，、：,:;。｡！？；…!?.")
_OPENING = "“‘「『（【《〈〔〖\"'([{«*_"

# Never the end of a sentence: something must follow.
_NEVER = _words(
    "mr mrs ms dr prof st fr rev hon gen sen rep gov pres capt lt col sgt cmdr mt ft vs v cf viz ca approx"
    " e.g i.e eg ie fig figs eqn eds incl resp"
)
# The end, unless a number follows.
_BEFORE_NUMBER = _words(
    "no nos p pp vol vols ch chap sec sect eq art para ref refs tab ver jan feb mar apr jun jul aug sep sept"
    " oct nov dec"
)
# The end only where the next word begins sentences.
_PERHAPS = _words("inc ltd co corp jr sr al dept univ ed est bros assn ave blvd rd ph.d")
_BEGINNERS = _words(
    "the a an in on at it he she we they you i this that these those there here however but and or so for"
    " if when while since because although as after before our his her its their my your what who why how"
    " where which no not yes please to by from with then thus also"
)


def sentences(text: str) -> list[Span]:
    """The sentences of `text` as trimmed half-open spans, in order.

    Together they cover every character that is not white space.
    """
    spans: list[Span] = []
    for start, end, whole in _blocks(text):
        if whole:
            spans.append((start, end))
        else:
            spans.extend(_within(text, start, end))
    return spans


def line_breaks(text: str) -> int:
    """How many lines end in `text`; CR LF counts once."""
    return len(_LINE_BREAK.findall(text))


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Paragraphs, items and lines that stand alone: trimmed (start, end, never cut inside)."""
    fences = _fenced(text)
    open_start, open_end, open_item = -1, -1, False
    for line in _LINE.finditer(text):
        content = line.group()
        trimmed = content.strip()
        if not trimmed:
            continue
        start = line.start() + len(content) - len(content.lstrip())
        end = start + len(trimmed)
        alone, item = _shape(text, line.start(), line.end(), fences)
        joins = not (alone or item) and open_end >= 0 and not _blank_between(text, open_end, start)
        if joins:
            open_end = end
            continue
        if open_end >= 0:
            yield open_start, open_end, open_item and open_end - open_start <= ITEM_LENGTH
        if alone:
            yield start, end, True
            open_start = open_end = -1
        else:
            open_start, open_end, open_item = start, end, item
    if open_end >= 0:
        yield open_start, open_end, open_item and open_end - open_start <= ITEM_LENGTH


def _fenced(text: str) -> list[Span]:
    """Regions of fenced code, last one first. A fence that is never closed is none."""
    if "```" not in text and "~~~" not in text:
        return []
    marks = [match.span() for match in _FENCE.finditer(text)]
    pairs = zip(marks[::2], marks[1::2], strict=False)
    return [(opening[0], closing[1]) for opening, closing in pairs][::-1]


def _shape(text: str, start: int, end: int, fences: list[Span]) -> tuple[bool, bool]:
    """Whether the line stands alone, and whether it begins a list item."""
    while fences and fences[-1][1] <= start:
        fences.pop()
    if fences and fences[-1][0] <= start:
        return True, False
    match = _BLOCK_LINE.match(text, start, end)
    if match is None:
        return False, False
    return match["line"] is not None, match["item"] is not None


def _blank_between(text: str, end: int, start: int) -> bool:
    gap = text[end:start]
    # One line break is by far the most frequent gap.
    return gap != "\n" and line_breaks(gap) > 1


def _within(text: str, start: int, stop: int) -> Iterator[Span]:
    """The sentences of one block."""
    begin = start
    for match in _MARK.finditer(text, start, stop):
        if _ends(text, start, match, stop):
            yield begin, match.end()
            begin = _skip(text, match.end(), stop)
    if begin < stop:
        yield begin, stop


def _skip(text: str, start: int, stop: int) -> int:
    match = _SPACE.match(text, start, stop)
    return match.end() if match else start


def _ends(text: str, start: int, match: re.Match[str], stop: int) -> bool:
    """Whether the marks of `match` end a sentence of the block `text[start:stop]`."""
    marks, end = match["marks"], match.end()
    if end == stop:
        return True
    following = text[end]
    if following in _GOES_ON:
        return False
    if not _FULL_MARKS.isdisjoint(marks):
        return True
    if not following.isspace():
        return _runs_on(text, match, following)
    beginning = _skip(text, end, stop)
    while beginning < stop - 1 and text[beginning] in _OPENING:
        beginning += 1
    if marks == ".":
        return _stop_ends(text, start, match, beginning)
    lower = text[beginning].islower()
    if "…" in marks or marks.endswith(".."):
        return not (lower or text[beginning].isdigit())
    return not (lower and end > match.end("marks"))


def _runs_on(text: str, match: re.Match[str], following: str) -> bool:
    """Marks without a space behind them end a sentence only before Chinese and its like."""
    if following < "\u2e80":
        return False
    marks, before = match["marks"], text[match.start() - 1 : match.start()]
    return marks != "." or before.isalpha()


def _stop_ends(text: str, start: int, match: re.Match[str], beginning: int) -> bool:
    """Whether one full stop, a space behind it, ends a sentence; `beginning` is what comes next."""
    if text[beginning].islower():
        return False
    at = match.start()
    found = _WORD_BEFORE.search(text[max(start, at - _LOOK_BACK) : at])
    if found is None:
        return True
    word = found.group()
    opens_block = at - len(word) == start
    lowered = word.lower()
    if word.isdigit():
        return not opens_block
    if lowered in _NEVER:
        return False
    if lowered in _BEFORE_NUMBER and not (len(word) == 1 and word.isupper()):
        return not text[beginning].isdigit()
    initial = len(word) == 1 and word.isupper()
    if initial or lowered in _PERHAPS or _DOTTED.fullmatch(word):
        following = _WORD.match(text, beginning)
        begins = following is None or following.group().lower() in _BEGINNERS
        return begins and not (initial and opens_block)
    return True
