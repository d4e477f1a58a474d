"""The recursive splitter: as many whole units as fit, cut where a reader would cut."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from ragstone.errors import InvalidStage
from ragstone.protocols import Tokenizer
from ragstone.split.breaks import CHARACTER, LINE, PARAGRAPH, SECTION, SENTENCE, WORD, Breaks
from ragstone.split.context import context_of, title_of
from ragstone.split.sizes import Characters, Sizes, Tokens
from ragstone.types import Chunk, Document, HeadingSpan, PageSpan

Level: TypeAlias = Literal["section", "paragraph", "line", "sentence", "word", "character"]

_RANKS: dict[Level, int] = {
    "section": SECTION,
    "paragraph": PARAGRAPH,
    "line": LINE,
    "sentence": SENTENCE,
    "word": WORD,
    "character": CHARACTER,
}

# A better break is taken rather than a later one while the chunk is at least a third
# full: smaller chunks would be fragments, a higher share would cut paragraphs for nothing.
_LEAST_SHARE = 3
# A section ends a chunk much sooner: what follows would stand under the wrong headings.
_LEAST_SECTION_SHARE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RecursiveSplitter:
    """Cuts a document at sections, paragraphs, lines, sentences, words, characters, in this order.

    `max_size` and `overlap` count tokens of `tokenizer`, or code points without one. As
    many units as fit make a chunk; only a unit that does not fit alone is cut at its
    parts. A heading stays with the text that follows it. The overlap repeats whole
    sentences from the end of the chunk before, as many as fit into `overlap`; words or
    characters where the cut was inside a sentence; nothing across sections.

    Chunks are trimmed slices: `chunk.text == document.text[start:end]`. Every character
    that is not white space is in one of them, none is blank, and none is over
    `max_size`, except that a single code point of more tokens than that is not divided.

    `level` is the best unit to cut at: "word" ignores sentences and paragraphs.
    `context_size` limits `Chunk.context` (title and headings) in the same unit; 0 leaves
    it out. 300, 30 are the sizes of LangChain4j's Easy RAG.

    Raises:
        InvalidStage: a size that is no whole number or out of range, `overlap` not below
            `max_size`, or an unknown level.
    """

    max_size: int = 300
    overlap: int = 30
    tokenizer: Tokenizer | None = None
    level: Level = "section"
    context_size: int = 60

    def __post_init__(self) -> None:
        for name, value, least in (
            ("max_size", self.max_size, 1),
            ("overlap", self.overlap, 0),
            ("context_size", self.context_size, 0),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidStage("split.size", name=name, value=value, least=least)
        if self.overlap >= self.max_size:
            raise InvalidStage("split.overlap", overlap=self.overlap, max_size=self.max_size)
        if self.level not in get_args(Level):
            raise InvalidStage("split.level", value=self.level, levels=", ".join(get_args(Level)))

    @property
    def identity(self) -> str:
        """Names everything that changes the chunks, except which tokenizer it is."""
        unit = "characters" if self.tokenizer is None else "tokens"
        return f"recursive/1/{unit}/{self.max_size}/{self.overlap}/{self.level}/{self.context_size}"

    def __call__(self, document: Document) -> list[Chunk]:
        text = document.text
        sizes = Characters(text) if self.tokenizer is None else Tokens(text, self.tokenizer)
        cutter = _Cutter(document, sizes, self)
        places = _Places(document)
        contexts: dict[tuple[str, ...], str] = {}
        chunks: list[Chunk] = []
        for index, (start, end) in enumerate(cutter.spans()):
            headings = places.headings(start)
            if headings not in contexts:
                contexts[headings] = context_of(
                    title_of(document), headings, limit=self.context_size, tokenizer=self.tokenizer
                )
            chunks.append(
                Chunk(
                    text=text[start:end],
                    document_id=document.document_id,
                    index=index,
                    start=start,
                    end=end,
                    context=contexts[headings],
                    page=places.page(start),
                    headings=headings,
                    metadata=dict(document.metadata),
                )
            )
        return chunks


class _Cutter:
    """Walks over one document and yields the spans of its chunks."""

    def __init__(self, document: Document, sizes: Sizes, options: RecursiveSplitter) -> None:
        self._text = document.text
        self._sizes = sizes
        self._max_size = options.max_size
        self._overlap = options.overlap
        self._breaks = Breaks(document, _RANKS[options.level])
        self._stop = len(self._text.rstrip())

    def spans(self) -> Iterator[tuple[int, int]]:
        # `floor` is where the text begins that no chunk holds yet; `start` lies before
        # it by the overlap. Each chunk ends behind `floor`, so the walk always ends.
        start = floor = self._breaks.skip(0)
        while floor < self._stop:
            start, end, cut, rank = self._chunk(start, floor)
            yield start, end
            floor = self._breaks.skip(cut)
            if floor < self._stop:
                start = self._overlap_start(start, end, floor, rank)

    def _chunk(self, start: int, floor: int) -> tuple[int, int, int, int]:
        """The chunk from `start` that ends behind `floor`: start, end, cut and the cut's rank."""
        limit = self._max_size
        while True:
            cut, rank = self._cut(start, floor, limit)
            end = self._trimmed(start, cut)
            excess = self._sizes.exact(start, end) - self._max_size
            if excess <= 0:
                return start, end, cut, rank
            # On its own the slice has more tokens than within the text: aim lower.
            limit = min(limit, self._sizes.size(start, end)) - excess
            if start < floor and (limit < 1 or self._sizes.reach(start, limit) <= floor):
                start, limit = floor, self._max_size
            elif limit < 1:
                end = self._squeezed(start, end)
                return start, end, end, CHARACTER

    def _cut(self, start: int, floor: int, limit: int) -> tuple[int, int]:
        """The best break behind `floor` for a chunk of at most `limit`, and its rank."""
        reach = max(self._sizes.reach(start, limit), floor + 1)
        # A unit fits when its text does; the white space behind it does not count.
        furthest = self._breaks.skip(reach)
        if furthest >= self._stop:
            return self._stop, SECTION
        section = self._breaks.section(furthest)
        if section > floor and section >= self._sizes.reach(start, limit // _LEAST_SECTION_SHARE):
            return section, SECTION
        low = max(self._sizes.reach(start, limit // _LEAST_SHARE), floor + 1)
        found = self._breaks.best(low, furthest) or self._breaks.best(floor + 1, min(low - 1, furthest))
        cut, rank = found or (self._breaks.character(floor + 1, reach), CHARACTER)
        return self._whole(floor, cut) or (cut, rank)

    def _whole(self, floor: int, cut: int) -> tuple[int, int] | None:
        """The beginning of the table row or fenced code that `cut` divides though it fits alone."""
        atom = self._breaks.atom(cut)
        if atom is None or atom[0] <= floor or self._breaks.keeps(atom[0]):
            return None
        return (atom[0], LINE) if self._sizes.size(*atom) <= self._max_size else None

    def _squeezed(self, start: int, end: int) -> int:
        """An end for which the slice holds the limit; the last resort, ends at one code point."""
        while end - start > 1 and self._sizes.exact(start, end) > self._max_size:
            end = self._trimmed(start, self._breaks.character(start + 1, start + (end - start) // 2))
        return end

    def _trimmed(self, start: int, cut: int) -> int:
        return start + len(self._text[start:cut].rstrip())

    def _overlap_start(self, start: int, end: int, floor: int, rank: int) -> int:
        """Where the next chunk begins: units before `floor` within the overlap, or `floor`."""
        if self._overlap == 0:
            return floor
        low = max(self._sizes.back(end, self._overlap), start + 1, self._breaks.section(floor))
        target = -1
        for candidates in self._overlap_units(low, end, rank):
            first = next(candidates, None)
            if first is None:
                continue
            target = self._first_unit_end(floor) if target < 0 else target
            if not self._fits(first, target):
                # The more is repeated the less room is left, so the fitting ones come last.
                rest = list(candidates)
                found = bisect_left(rest, True, key=lambda position: self._fits(position, target))
                if found == len(rest):
                    continue
                first = rest[found]
            start = self._breaks.next_character(first, end)
            return start if start < end else floor
        return floor

    def _overlap_units(self, low: int, end: int, rank: int) -> Iterator[Iterator[int]]:
        """Places where an overlap may begin, best kind first."""
        if low >= end:
            return
        yield self._breaks.units(low, end)
        if rank > SENTENCE:
            yield self._breaks.words(low, end - 1)
        if rank == CHARACTER:
            yield iter(range(low, end))

    def _first_unit_end(self, floor: int) -> int:
        """How far the next chunk must reach at least: the overlap never makes a unit be cut."""
        unit = self._breaks.next_unit(floor)
        if self._fits(floor, unit):
            return unit
        furthest = self._breaks.skip(self._sizes.reach(floor, self._max_size))
        return next(self._breaks.words(floor + 1, furthest), floor + 1)

    def _fits(self, start: int, end: int) -> bool:
        return end <= self._breaks.skip(self._sizes.reach(start, self._max_size))


class _Places:
    """Page and headings at a position; positions are asked for in rising order."""

    def __init__(self, document: Document) -> None:
        self._pages = sorted(document.pages, key=_page_start)
        self._page_starts = [page.start for page in self._pages]
        self._waiting = sorted(document.headings, key=_outer_first, reverse=True)
        self._open: list[HeadingSpan] = []

    def page(self, position: int) -> int | None:
        if not self._pages:
            return None
        return self._pages[max(bisect_right(self._page_starts, position) - 1, 0)].number

    def headings(self, position: int) -> tuple[str, ...]:
        while self._waiting and self._waiting[-1].start <= position:
            self._open.append(self._waiting.pop())
        while self._open and self._open[-1].end <= position:
            self._open.pop()
        return self._open[-1].path if self._open else ()


def _page_start(page: PageSpan) -> int:
    return page.start


def _outer_first(span: HeadingSpan) -> tuple[int, int]:
    return span.start, -span.end
