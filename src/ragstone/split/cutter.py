"""Packs units into chunks: as many as fit, cut at the best break, the overlap of whole units (pure)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from ragstone.sentences import Span
from ragstone.split.breaks import CHARACTER, LINE, SECTION, SENTENCE, Breaks
from ragstone.split.sizes import Sizes

# A better break is taken rather than a later one while the chunk is at least a third
# full: smaller chunks would be fragments, a higher share would cut paragraphs for nothing.
_LEAST_SHARE = 3
# A section ends a chunk much sooner: what follows would stand under the wrong headings.
_LEAST_SECTION_SHARE = 10


class Cutter:
    """Walks over one document and yields the spans of its chunks."""

    def __init__(
        self, text: str, sizes: Sizes, breaks: Breaks, *, max_size: int, overlap: int, min_size: int = 0
    ) -> None:
        self._text = text
        self._sizes = sizes
        self._max_size = max_size
        self._overlap = overlap
        self._min_size = min_size
        self._breaks = breaks
        self._stop = len(text.rstrip())

    def spans(self) -> Iterable[Span]:
        """The chunks of the whole text."""
        spans = self._walk(0)
        return self._merged(spans) if self._min_size else spans

    def within(self, start: int, end: int) -> Iterator[Span]:
        """The chunks of `text[start:end]`, which ends with no blank."""
        self._stop = end
        return self._walk(start)

    def _merged(self, spans: Iterable[Span]) -> list[Span]:
        """Chunks below the minimum joined to the one before or behind, where both fit into one."""
        kept: list[Span] = []
        for span in spans:
            if kept and self._joins(kept[-1], span):
                kept[-1] = (kept[-1][0], span[1])
            else:
                kept.append(span)
        return kept

    def _joins(self, before: Span, span: Span) -> bool:
        return (
            min(self._sizes.exact(*before), self._sizes.exact(*span)) < self._min_size
            and self._sizes.exact(before[0], span[1]) <= self._max_size
        )

    def _walk(self, begin: int) -> Iterator[Span]:
        # `floor` is where the text begins that no chunk holds yet; `start` lies before
        # it by the overlap. Each chunk ends behind `floor`, so the walk always ends.
        start = floor = self._breaks.skip(begin)
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
        while cut > start and self._text[cut - 1].isspace():
            cut -= 1
        return cut

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
            # Where the whole block fits, so does its first unit, which need not be looked for.
            if target < 0 and not self._fits(first, self._breaks.next_block(floor)):
                target = self._first_unit_end(floor)
            if target >= 0 and not self._fits(first, target):
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
        furthest = self._breaks.skip(self._sizes.reach(floor, self._max_size))
        unit = min(self._breaks.next_unit(floor, furthest), self._stop)
        if unit <= furthest:
            return unit
        return next(self._breaks.words(floor + 1, furthest), floor + 1)

    def _fits(self, start: int, end: int) -> bool:
        return end <= self._breaks.skip(self._sizes.reach(start, self._max_size))
