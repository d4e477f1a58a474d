"""Citations of an answer: read the markers, drop unknown ones, find and check their support (pure).

A marker is [1], [1][2], [1, 2], [1-3], the same in 【】 or ［］ and with full-width digits;
it comes out as [1][2]. Code between backticks, links `[1](...)` and numbers of four
digits are no markers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any, NamedTuple

from ragstone.audit import missing_facts
from ragstone.sentences import sentences
from ragstone.terms import analyze
from ragstone.types import Citation, Hit

_NUMBER = r"[1-9１-９]\d{0,2}"
_BODY = rf"\s?(?:{_NUMBER}(?:\s?[,，、;；\-–—~]\s?{_NUMBER})*|[0０])\s?"
_MARKER = rf"(?:\[\[{_BODY}\]\]|\[{_BODY}\](?!\()|【{_BODY}】|［{_BODY}］)"
_MARKERS = re.compile(_MARKER)
_RUN = re.compile(rf"([ \t]*)({_MARKER}(?:[ \t]*{_MARKER})*)([ \t]*)")
_GROUP = re.compile(r"[\d\s,，、;；\-–—~]+")
_RANGE = re.compile(r"(\d+)(?:\s*[-–—~]\s*(\d+))?")
_TOKEN = re.compile(rf"(?P<ticks>`+)|(?P<run>{_RUN.pattern})")
# What may still grow into a marker, or still need the character after it.
_OPEN_END = re.compile(
    rf"(?:`+|[ \t]*(?:{_MARKER}[ \t]*)*"
    r"(?:(?:\[{1,2}|【|［)[\d\s,，、;；\-–—~]{0,40}[\]】］]{0,2})?[ \t]*)\Z"
)
_CLOSING = re.compile(r"[\s.,;:!?)\]}'\"。，、；：！？）】》」』”’…]")
_FENCE_TICKS = 3


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
        self._pending = ""
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
        self._pending += piece
        return self._advance(final=False)

    def finish(self) -> str:
        return self._advance(final=True)

    def _advance(self, *, final: bool) -> str:
        start = len(self._shown)
        while self._pending:
            before = len(self._pending)
            if self._ticks:
                self._read_code(final)
            else:
                self._read_text(final)
            if len(self._pending) == before:
                break
        return "".join(self._shown[start:])

    def _read_code(self, final: bool) -> None:
        """Up to the closing backticks; code within a line ends with the line at the latest."""
        inline = len(self._ticks) < _FENCE_TICKS
        for match in re.finditer(r"`+|\n" if inline else r"`+", self._pending):
            if match.end() == len(self._pending) and not final and match.group() != "\n":
                break
            if match.group() in (self._ticks, "\n"):
                self._ticks = ""
                self._emit(self._take(match.end()))
                return
        held = 0 if final else len(self._pending) - len(self._pending.rstrip("`"))
        self._emit(self._take(len(self._pending) - held))

    def _read_text(self, final: bool) -> None:
        limit = len(self._pending)
        if not final:
            tail = _OPEN_END.search(self._pending)
            limit = tail.start() if tail else limit
        match = _TOKEN.search(self._pending)
        if match is None or match.start() >= limit:
            self._emit(self._take(limit))
            return
        if match.end() > limit and not final:
            self._emit(self._take(match.start()))
            return
        self._emit(self._take(match.start()))
        token = self._take(match.end() - match.start())
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
            joint = lead if not trail and self._pending[:1].isalnum() else ""
            self._emit(lead + "".join(f"[{n}]" for n in kept), plain=joint)
            self._emit(trail)
        else:
            self._emit(self._gap(lead, trail))

    def _gap(self, lead: str, trail: str) -> str:
        """What stands where a marker was: nothing, or the one space the words need."""
        following = self._pending[:1]
        if self._before == "\n":
            return lead
        if not following or _CLOSING.match(following):
            return ""
        glued = self._before.isascii() and self._before.isalnum() and following.isascii()
        return " " if lead or trail or (glued and following.isalnum()) else ""

    def _take(self, length: int) -> str:
        taken, self._pending = self._pending[:length], self._pending[length:]
        return taken

    def _emit(self, text: str, plain: str | None = None) -> None:
        if text:
            self._shown.append(text)
            self._before = text[-1]
            added = text if plain is None else plain
            self._plain.append(added)
            self._plain_length += len(added)


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
    for sentence, numbers in cited:
        for n in numbers:
            citation = _citation(sentence, n, passages[n - 1])
            citations.setdefault((n, citation.start, citation.end), citation)
        missing = missing_facts(sentence, [_readable(passages[n - 1]) for n in numbers])
        if missing:
            unsupported.append({"sentence": sentence, "missing": missing})
    audit = {
        "sentences": len(spans),
        "cited": len(cited),
        "unsupported": unsupported,
        "removed_markers": [*removed, *citer.removed],
    }
    return Cited(text=citer.text, citations=tuple(citations.values()), audit=audit)


def _readable(hit: Hit) -> str:
    return f"{hit.title}\n{hit.chunk.embedding_text}"


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
    before, _, _ = plain[:offset].rpartition("\n")
    opens_line = not plain[len(before) : offset].strip()
    if opens_line and plain[offset:].partition("\n")[0].strip():
        return offset
    return max(0, len(plain[:offset].rstrip()) - 1)


def _sentence_at(spans: Sequence[tuple[int, int]], offset: int) -> int | None:
    """The sentence that holds `offset`, else the next one, else the last."""
    for index, (_, end) in enumerate(spans):
        if offset < end:
            return index
    return len(spans) - 1 if spans else None


# --- support -----------------------------------------------------------------------


def _citation(sentence: str, n: int, hit: Hit) -> Citation:
    chunk = hit.chunk
    start, end = _support(sentence, chunk.text)
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


def _support(sentence: str, passage: str) -> tuple[int, int]:
    return _exact(sentence, passage) or _nearest(sentence, passage) or _trimmed(passage, 0, len(passage))


def _exact(sentence: str, passage: str) -> tuple[int, int] | None:
    """Where the sentence stands, whatever the white space and the footnote markers between."""
    wanted, have = _squeezed(sentence), _squeezed(passage)
    for needle in (wanted, wanted.rstrip(".。")):
        at = have.find(needle) if needle else -1
        if at >= 0:
            places = _places(passage)
            return places[at], places[at + len(needle) - 1] + 1
    return None


def _squeezed(text: str) -> str:
    """The text without white space and markers."""
    return "".join(_MARKERS.sub("", text).split())


def _places(text: str) -> list[int]:
    """Where each character of the squeezed text stands."""
    hidden = {place for match in _MARKERS.finditer(text) for place in range(*match.span())}
    return [place for place, character in enumerate(text) if place not in hidden and not character.isspace()]


def _nearest(sentence: str, passage: str) -> tuple[int, int] | None:
    """The passage's sentence with the most weight of shared terms, rare ones counting more."""
    wanted = set(analyze(sentence))
    spans = sentences(passage)
    found = [set(analyze(passage[start:end])) for start, end in spans]
    seen = Counter(term for terms in found for term in terms)
    best, best_weight = None, 0.0
    for span, terms in zip(spans, found, strict=True):
        weight = sum(log(1 + len(spans) / seen[term]) for term in wanted & terms)
        if weight > best_weight + 1e-9:
            best, best_weight = span, weight
    return _trimmed(passage, *best) if best else None


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    inner = text[start:end]
    return start + len(inner) - len(inner.lstrip()), end - len(inner) + len(inner.rstrip())
