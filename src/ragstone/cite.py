"""Citations of an answer: read the markers, drop unknown ones, find and check their support (pure).

A marker is [1], [1][2], [1, 2], [1-3], the same in 【】 or ［］ and with full-width digits;
it comes out as [1][2]. Code between backticks, links `[1](...)` and numbers of four
digits are no markers.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import log
from typing import Any, NamedTuple

from ragstone.audit import Evidence, missing_facts
from ragstone.sentences import sentences
from ragstone.terms import analyze
from ragstone.types import Citation, Hit

_NUMBER = r"[1-9１-９]\d{0,2}"
_BODY = rf"\s?(?:{_NUMBER}(?:\s?[,，、;；\-–—~]\s?{_NUMBER})*|[0０])\s?"
_MARKER = rf"(?:\[\[{_BODY}\]\]|\[{_BODY}\](?!\()|【{_BODY}】|［{_BODY}］)"
_MARKERS = re.compile(_MARKER)
_RUN = re.compile(rf"((?<![ \t])[ \t]*)({_MARKER}(?:[ \t]*{_MARKER})*)([ \t]*)")
_GROUP = re.compile(r"[\d\s,，、;；\-–—~]+")
_RANGE = re.compile(r"(\d+)(?:\s*[-–—~]\s*(\d+))?")
_TOKEN = re.compile(rf"(?P<ticks>`+)|(?P<run>{_RUN.pattern})")
# What may still grow into a marker, or still need the character after it.
_OPEN_END = re.compile(
    rf"(?:`+|[ \t]*(?:{_MARKER}[ \t]*)*"
    r"(?:(?:\[{1,2}|【|［)[\d\s,，、;；\-–—~]{0,40}[\]】］]{0,2})?[ \t]*)\Z"
)
_IN_MARKERS = frozenset(" \t\n\r\f\v,，、;；-–—~[]【】［］`")
_SOON = 256
"""Text held back is looked at with every piece up to this length, then when it has grown by a quarter."""
_CLOSING = re.compile(r"[\s.,;:!?)\]}'\"。，、；：！？）】》」』”’…]")
_FENCE_TICKS = 3
_CANDIDATES = 50
"""Sentences of a passage that a cited sentence is compared with, for each of its terms."""
_TICKS = re.compile(r"`+")
_CODE_END = re.compile(r"`+|\n")


class Mark(NamedTuple):
    """Marker [n] after `offset` characters of the text without markers."""

    offset: int
    n: int


class StreamCiter:
    """Drops unknown markers from text that comes in pieces of any size.

    `feed` and `finish` return what can be shown; however the text is cut, the pieces add
    up to the same. Afterwards `text` is the repaired text, `plain` the same without
    markers, `marks` where they stood in `plain`, and `removed` the unknown numbers.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._held: list[str] = []
        self._held_length = 0
        self._look_at = 0
        self._pending = ""
        self._at = 0
        self._ticks = ""
        self._before = "\n"
        self._shown: list[str] = []
        self._plain: list[str] = []
        self._plain_length = 0
        self.marks: list[Mark] = []
        self.removed: list[int] = []

    @property
    def text(self) -> str:
        return "".join(self._shown)

    @property
    def plain(self) -> str:
        return "".join(self._plain)

    @property
    def in_code(self) -> bool:
        """Whether the text so far ends within backticks, where a marker would not be read."""
        return bool(self._ticks)

    def feed(self, piece: str) -> str:
        self._held.append(piece)
        self._held_length += len(piece)
        return self._advance(final=False) if self._held_length >= self._look_at else ""

    def finish(self) -> str:
        return self._advance(final=True)

    def _advance(self, *, final: bool) -> str:
        start = len(self._shown)
        self._pending, self._at = "".join(self._held), 0
        open_end = len(self._pending) if final else _open_end(self._pending)
        while (at := self._at) < len(self._pending):
            if self._ticks:
                self._read_code(final)
            else:
                self._read_text(open_end)
            if self._at == at:
                break
        rest = self._pending[self._at :]
        self._held, self._held_length = [rest], len(rest)
        self._look_at = 0 if len(rest) < _SOON else len(rest) + len(rest) // 4
        return "".join(self._shown[start:])

    def _read_code(self, final: bool) -> None:
        """Up to the closing backticks; code within a line ends with the line at the latest."""
        ends = _CODE_END if len(self._ticks) < _FENCE_TICKS else _TICKS
        for match in ends.finditer(self._pending, self._at):
            if match.end() == len(self._pending) and not final and match.group() != "\n":
                break
            if match.group() in (self._ticks, "\n"):
                self._ticks = ""
                self._emit(self._take(match.end()))
                return
        held = 0 if final else len(self._pending) - len(self._pending.rstrip("`"))
        self._emit(self._take(max(self._at, len(self._pending) - held)))

    def _read_text(self, limit: int) -> None:
        """Up to the next marker or code, and that; no further than `limit`, where it may still grow."""
        match = _TOKEN.search(self._pending, self._at)
        if match is None or match.start() >= limit:
            self._emit(self._take(max(self._at, limit)))
            return
        if match.end() > limit:
            self._emit(self._take(match.start()))
            return
        self._emit(self._take(match.start()))
        token = self._take(match.end())
        if match.group("ticks"):
            self._ticks = token
            self._emit(token)
        else:
            self._replace(token)

    def _replace(self, token: str) -> None:
        run = _RUN.fullmatch(token)
        assert run is not None
        lead, markers, trail = run.groups()
        kept: list[int] = []
        for n in _numbers(markers, self._count):
            if n > self._count or n == 0:
                self.removed.append(n)
            elif n not in kept:
                kept.append(n)
        if kept:
            self.marks += [Mark(self._plain_length, n) for n in kept]
            joint = lead if not trail and self._following.isalnum() else ""
            self._emit(lead + "".join(f"[{n}]" for n in kept), plain=joint)
            self._emit(trail)
        else:
            self._emit(self._gap(lead, trail))

    def _gap(self, lead: str, trail: str) -> str:
        """What stands where a marker was: nothing, or the one space the words need."""
        following = self._following
        if self._before == "\n":
            return lead
        if not following or _CLOSING.match(following):
            return ""
        glued = self._before.isascii() and self._before.isalnum() and following.isascii()
        return " " if lead or trail or (glued and following.isalnum()) else ""

    @property
    def _following(self) -> str:
        return self._pending[self._at : self._at + 1]

    def _take(self, end: int) -> str:
        taken = self._pending[self._at : end]
        self._at = end
        return taken

    def _emit(self, text: str, plain: str | None = None) -> None:
        if text:
            self._shown.append(text)
            self._before = text[-1]
            added = text if plain is None else plain
            self._plain.append(added)
            self._plain_length += len(added)


def _open_end(text: str) -> int:
    """Where the end of `text` begins that may still grow into a marker or code; its length without one."""
    at = len(text)
    while at and (text[at - 1] in _IN_MARKERS or text[at - 1].isdigit()):
        at -= 1
    # Digits and commas alone are no beginning: only what follows blanks or a bracket may be one.
    while at < len(text):
        if (match := _OPEN_END.match(text, at)) is not None:
            return match.start()
        if (run := _RUN.match(text, at)) is not None and run.end() > at:
            at = run.end()
            continue
        at += 1
    return at


def repair(pieces: Iterable[str], count: int) -> Iterator[str]:
    """`pieces` without the markers above `count`; see `StreamCiter`."""
    citer = StreamCiter(count)
    for piece in pieces:
        yield citer.feed(piece)
    yield citer.finish()


def without_markers(text: str) -> str:
    """`text` without any marker outside code: what a quoted document calls [1] is not ours."""
    citer = StreamCiter(0)
    return citer.feed(text) + citer.finish()


def _numbers(markers: str, count: int) -> list[int]:
    """The numbers of a run of markers in order; a range reaches one beyond `count` at most."""
    found: list[int] = []
    for group in _GROUP.findall(markers):
        for first, last in _RANGE.findall(group):
            low, high = int(first), int(last or first)
            found += range(low, max(low, min(high, max(count, low) + 1)) + 1)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Cited:
    """An answer's text with only known markers, what they quote, and the audit.

    `audit`: `sentences` and how many are `cited`; `unsupported`, each with its `sentence`
    and the facts `missing` from the passages it cites; `removed_markers`, numbers that no
    passage has.
    """

    text: str
    citations: tuple[Citation, ...] = ()
    audit: dict[str, Any] = field(default_factory=dict[str, Any])


def cite(text: str, passages: Sequence[Hit], *, removed: Sequence[int] = ()) -> Cited:
    """Read and check the citations of an answer written from `passages`, numbered from 1.

    A cited sentence that stands in its passage is quoted as it stands there; otherwise the
    passage's sentence that shares the most terms is quoted; a passage that shares none
    (another language) is quoted whole. One citation for each number and quote, in order of
    appearance. `removed` names unknown markers taken out before, for the audit.
    """
    citer = StreamCiter(len(passages))
    citer.feed(text)
    citer.finish()
    citations: dict[tuple[int, int, int], Citation] = {}
    unsupported: list[dict[str, Any]] = []
    spans = sentences(citer.plain)
    cited = _cited_sentences(citer.plain, spans, citer.marks)
    read = [_Passage(hit) for hit in passages]
    for sentence, numbers in cited:
        for n in numbers:
            citation = _citation(sentence, n, read[n - 1])
            citations.setdefault((n, citation.start, citation.end), citation)
        missing = missing_facts(sentence, [read[n - 1].evidence for n in numbers])
        if missing:
            unsupported.append({"sentence": sentence, "missing": missing})
    audit = {
        "sentences": len(spans),
        "cited": len(cited),
        "unsupported": unsupported,
        "removed_markers": [*removed, *citer.removed],
    }
    return Cited(text=citer.text, citations=tuple(citations.values()), audit=audit)


def _cited_sentences(
    plain: str, spans: Sequence[tuple[int, int]], marks: Sequence[Mark]
) -> list[tuple[str, list[int]]]:
    """Each cited sentence with its numbers, in order of the text."""
    numbers: dict[int, list[int]] = {}
    for offset, n in marks:
        index = _sentence_at(spans, _anchor(plain, offset))
        if index is not None and n not in numbers.setdefault(index, []):
            numbers[index].append(n)
    return [(plain[slice(*spans[index])].strip(), numbers[index]) for index in sorted(numbers)]


def _anchor(plain: str, offset: int) -> int:
    """A marker belongs to the words before it on its line; at a line's start to those after it."""
    line = plain.rfind("\n", 0, offset) + 1
    end = plain.find("\n", offset)
    opens_line = not plain[line:offset].strip()
    if opens_line and plain[offset : end if end >= 0 else len(plain)].strip():
        return offset
    while offset and plain[offset - 1].isspace():
        offset -= 1
    return max(0, offset - 1)


def _sentence_at(spans: Sequence[tuple[int, int]], offset: int) -> int | None:
    """The sentence that holds `offset`, else the next one, else the last."""
    if not spans:
        return None
    return min(bisect_right(spans, offset, key=lambda span: span[1]), len(spans) - 1)


# --- support -----------------------------------------------------------------------


class _Passage:
    """A passage with what is compared with each sentence that cites it, worked out once."""

    def __init__(self, hit: Hit) -> None:
        self.hit = hit
        self.text = hit.chunk.text

    @cached_property
    def evidence(self) -> Evidence:
        return Evidence(f"{self.hit.title}\n{self.hit.chunk.embedding_text}")

    @cached_property
    def squeezed(self) -> str:
        return _squeezed(self.text)

    @cached_property
    def places(self) -> list[int]:
        """Where each character of `squeezed` stands."""
        hidden = {place for match in _MARKERS.finditer(self.text) for place in range(*match.span())}
        return [
            place
            for place, character in enumerate(self.text)
            if place not in hidden and not character.isspace()
        ]

    @cached_property
    def sentences(self) -> list[tuple[int, int]]:
        return sentences(self.text)

    @cached_property
    def terms(self) -> list[frozenset[str]]:
        """Those of each sentence."""
        return [frozenset(analyze(self.text[start:end])) for start, end in self.sentences]

    @cached_property
    def sentences_of(self) -> Mapping[str, Sequence[int]]:
        """term -> the numbers of the sentences that hold it."""
        found: dict[str, list[int]] = {}
        for number, terms in enumerate(self.terms):
            for term in terms:
                found.setdefault(term, []).append(number)
        return found


def _citation(sentence: str, n: int, passage: _Passage) -> Citation:
    hit, chunk = passage.hit, passage.hit.chunk
    start, end = _support(sentence, passage)
    place = chunk.place(chunk.start + start, chunk.start + end)
    return Citation(
        n=n,
        chunk_id=chunk.chunk_id,
        document_id=chunk.document_id,
        uri=hit.uri,
        title=hit.title,
        page=place.page,
        start=chunk.start + start,
        end=chunk.start + end,
        quote=chunk.text[start:end],
        place=place,
    )


def _support(sentence: str, passage: _Passage) -> tuple[int, int]:
    found = _exact(sentence, passage) or _nearest(sentence, passage)
    return found or _trimmed(passage.text, 0, len(passage.text))


def _exact(sentence: str, passage: _Passage) -> tuple[int, int] | None:
    """Where the sentence stands, whatever the white space and the footnote markers between."""
    wanted = _squeezed(sentence)
    for needle in (wanted, wanted.rstrip(".。")):
        at = passage.squeezed.find(needle) if needle else -1
        if at >= 0:
            return passage.places[at], passage.places[at + len(needle) - 1] + 1
    return None


def _squeezed(text: str) -> str:
    """The text without white space and markers."""
    return "".join(_MARKERS.sub("", text).split())


def _nearest(sentence: str, passage: _Passage) -> tuple[int, int] | None:
    """The passage's sentence with the most weight of shared terms, rare ones counting more."""
    held = {term: passage.sentences_of[term] for term in analyze(sentence) if term in passage.sentences_of}
    candidates: set[int] = set()
    for numbers in sorted(held.values(), key=len):
        if candidates and len(numbers) > _CANDIDATES:
            break  # what stands everywhere finds nothing
        candidates.update(numbers[:_CANDIDATES])
    rarity = {term: log(1 + len(passage.sentences) / len(numbers)) for term, numbers in held.items()}
    weights = {
        number: sum(weight for term, weight in rarity.items() if term in passage.terms[number])
        for number in candidates
    }
    if not weights:
        return None
    most = max(weights.values())
    best = min(number for number, weight in weights.items() if weight > most - 1e-9)
    return _trimmed(passage.text, *passage.sentences[best])


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    inner = text[start:end]
    return start + len(inner) - len(inner.lstrip()), end - len(inner) + len(inner.rstrip())
