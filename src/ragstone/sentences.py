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
_LONGEST_RUN = 64  # marks in a row; no more are looked at
_BEHIND = 16  # characters between a mark and the next sentence: closing quotes, notes, blanks


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

_NUMERALS = frozenset("一二三四五六七八九十")
_PLAIN = (False, False)
_CLOSING = "”’」』）】》〉〕〗\"')\\]}»*_"
_FULL = "。｡！？；।॥؟۔"
_ON = "，、：,:;。｡！？；…!?."
_CLOSED = rf"(?:[{_CLOSING}]|\[\d{{1,3}}\])*+"
# In three kinds, the clear ones first: nearly every mark is decided by the pattern alone.
_MARK = re.compile(
    rf"(?=[…!?.]*+[{_FULL}])[{_FULL}…!?.]++{_CLOSED}(?![{_ON}])"
    r"|(?P<stop>\.)(?=[ \n][A-Z])"
    rf"|(?P<marks>[{_FULL}…!?.]++){_CLOSED}"
)
_STOP = _MARK.groupindex["stop"]
_MARKS = frozenset(f"{_FULL}…!?.")
_ANY_MARK = re.compile(rf"[{_FULL}…!?.]")
_LAST_MARK = re.compile(rf".*[{_FULL}…!?.]", re.DOTALL)
_FULL_MARKS = frozenset(_FULL)
_GOES_ON = frozenset(_ON)
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
_ABBREVIATIONS = _NEVER | _BEFORE_NUMBER | _PERHAPS
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
    for start, end, whole in blocks(text):
        if whole:
            spans.append((start, end))
        else:
            spans.extend(_within(text, start, end))
    return spans


def line_breaks(text: str) -> int:
    """How many lines end in `text`; CR LF counts once."""
    return len(_LINE_BREAK.findall(text))


def blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Paragraphs, items and lines that stand alone: trimmed (start, end, one sentence)."""
    fences = fenced(text)
    open_start, open_end, open_item = -1, -1, False
    for line in _LINE.finditer(text):
        content = line.group()
        trimmed = content.strip()
        if not trimmed:
            continue
        start, end = line.span()
        if len(trimmed) < len(content):
            start += len(content) - len(content.lstrip())
            end = start + len(trimmed)
        # Most lines begin with a letter, and such a line is no more than a line.
        plain = not fences and trimmed[0].isalpha() and trimmed[0] not in _NUMERALS and trimmed[1:2] != ")"
        alone, item = _PLAIN if plain else _shape(text, line.start(), line.end(), fences)
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


def fenced(text: str) -> list[Span]:
    """Regions of fenced code, last one first. A fence that is never closed is none."""
    if "`" not in text and "~" not in text:
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


def last_break(text: str, block: Span, low: int, high: int) -> int:
    """The last place in [low, high] where a sentence begins inside the block; -1 if none does.

    Each mark is judged by itself, so that only the last ones are looked at.
    """
    start, stop = block
    position = min(high, stop)
    while found := _LAST_MARK.match(text, max(start, low - _BEHIND), position):
        position = _run_start(text, start, found.end() - 1)
        match = _MARK.match(text, position, stop)
        if match is None or not _judged(text, start, match, stop):
            continue
        begin = _skip(text, match.end(), stop)
        if begin < low:
            return -1
        if begin <= high and begin < stop:
            return begin
    return -1


def breaks_within(text: str, block: Span, low: int, high: int) -> Iterator[int]:
    """Where sentences begin inside the block, at the positions from `low` to `high`."""
    start, stop = block
    position = max(start, low - _BEHIND)
    if not _ANY_MARK.search(text, position, min(high, stop)):
        return
    for match in _MARK.finditer(text, _run_start(text, start, position), stop):
        if match.end() > high:
            return
        if _judged(text, start, match, stop):
            begin = _skip(text, match.end(), stop)
            if begin > high or begin >= stop:
                return
            if begin >= low:
                yield begin


def _run_start(text: str, start: int, position: int) -> int:
    """Where the run of marks around `position` begins; a place between other characters stays."""
    least = max(start, position - _LONGEST_RUN)
    while position > least and text[position - 1] in _MARKS:
        position -= 1
    return position


def _within(text: str, start: int, stop: int) -> Iterator[Span]:
    """The sentences of one block."""
    begin = start
    for match in _MARK.finditer(text, start, stop):
        if _judged(text, start, match, stop):
            end = match.end()
            yield begin, end
            begin = _skip(text, end, stop)
    if begin < stop:
        yield begin, stop


def _judged(text: str, start: int, match: re.Match[str], stop: int) -> bool:
    """Whether `match` ends a sentence of the block `text[start:stop]`."""
    kind = match.lastindex
    if kind is None:
        return True
    if kind == _STOP:
        at = match.start()
        return _plain_word(text, at) or _stop_ends(text, start, at, at + 2)
    return _ends(text, start, match, stop)


def _skip(text: str, start: int, stop: int) -> int:
    if start >= stop or not text[start].isspace():
        return start
    match = _SPACE.match(text, start, stop)
    return match.end() if match else start


def _plain_word(text: str, at: int) -> bool:
    """Whether the word before `at` is one that no abbreviation looks like."""
    word = text[text.rfind(" ", max(0, at - _LOOK_BACK), at) + 1 : at]
    return len(word) > 2 and word.isalpha() and word.islower() and word not in _ABBREVIATIONS


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
        return _stop_ends(text, start, match.start(), beginning)
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


def _stop_ends(text: str, start: int, at: int, beginning: int) -> bool:
    """Whether one full stop at `at`, a space behind it, ends a sentence; `beginning` is what comes next."""
    if text[beginning].islower():
        return False
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
