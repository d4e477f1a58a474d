"""Where people find a passage: page, slide, sheet and row, or section (pure).

Every store keeps the layout of a document and gives each passage what of it touches the
passage; `Chunk.place` reads a place of it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from ragstone.messages import Language, render

SPREADSHEETS = frozenset(
    {
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "application/vnd.ms-excel.sheet.binary.macroEnabled.12",
        "application/vnd.ms-excel",
        "application/vnd.oasis.opendocument.spreadsheet",
    }
)
"""Media types whose headings are the names of sheets."""
SLIDES = frozenset(
    {
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "application/vnd.ms-powerpoint",
        "application/vnd.oasis.opendocument.presentation",
    }
)
"""Media types whose pages are slides."""
DELIMITED = "text/csv"
"""Media type of rows without a sheet."""
HIDDEN_MARK = " (hidden)"
"""Behind the name of a sheet that the program does not show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSpan:
    """Page `number` (from 1) covers `text[start:end]` of its document."""

    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadingSpan:
    """`text[start:end]` stands under the headings `path`, outermost first."""

    path: tuple[str, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSpan:
    """`text[start:end]` holds the rows `first` to `last` (from 1) of a spreadsheet or delimited file.

    One row is all of the text, several have a line each.
    """

    first: int
    last: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where people find a passage, counted as its format counts, from its beginning to its end.

    A slide has a page too. `section` names the headings it stands under, outermost first, where
    there are neither pages nor sheets.
    """

    page: int | None = None
    page_end: int | None = None
    slide: int | None = None
    sheet: str | None = None
    row: int | None = None
    row_end: int | None = None
    section: tuple[str, ...] = ()

    def text(self, language: Language, title: str = "") -> str:
        """The place in words, empty where nothing is known; a section without the `title` it begins with."""
        if self.slide is not None:
            return _numbers("slide", language, self.slide, self.page_end)
        if self.page is not None:
            return _numbers("page", language, self.page, self.page_end)
        parts: list[str] = []
        if self.sheet:
            parts.append(render("place.sheet", language, sheet=self.sheet))
        if self.row is not None:
            parts.append(_numbers("row", language, self.row, self.row_end))
        section = self.section[1:] if self.section[:1] == (title,) else self.section
        if section and not parts:
            parts.append(render("place.section", language, section=" › ".join(section)))
        return render("place.comma", language).join(parts)

    def after(self, title: str, language: Language) -> str:
        """A title with the place behind it."""
        place = self.text(language, title)
        return f"{title}{render('place.comma', language)}{place}" if place else title


def _numbers(unit: str, language: Language, first: int, last: int | None) -> str:
    if last is None or last == first:
        return render(f"place.{unit}", language, number=first)
    return render(f"place.{unit}s", language, first=first, last=last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What says where a document's text stands for people; of a passage, what of it touches the passage."""

    media_type: str = ""
    pages: tuple[PageSpan, ...] = ()
    headings: tuple[HeadingSpan, ...] = ()
    rows: tuple[RowSpan, ...] = ()

    def page(self, position: int) -> int | None:
        return next((span.number for span in reversed(self.pages) if span.start <= position), None)

    def path(self, position: int) -> tuple[str, ...]:
        """The headings a position stands under: those of the innermost span that holds it."""
        return self._heading(position).path

    def _heading(self, position: int) -> HeadingSpan:
        held = (span for span in self.headings if span.start <= position < span.end)
        return max(held, key=_innermost, default=_NO_HEADING)

    def _rows_between(self, start: int, end: int, text: str, offset: int) -> tuple[int | None, int | None]:
        """The first and the last row of `start` to `end`; `text` is the document's from `offset` on."""
        touched = [span for span in self.rows if span.start < end and span.end > start]
        if not touched:
            return None, None
        first, last = touched[0], touched[-1]
        return (
            _row(first, max(start, first.start), text, offset),
            _row(last, min(end, last.end) - 1, text, offset),
        )

    def place(
        self,
        start: int,
        end: int,
        *,
        text: str,
        offset: int,
        page: int | None = None,
        headings: tuple[str, ...] = (),
    ) -> Place:
        """The place of `start` to `end`; page and headings are of what is not said here."""
        last = max(start, end - 1)
        page = self.page(start) or page
        if page is not None:
            page_end = max(self.page(last) or page, page)
            return Place(page=page, page_end=page_end, slide=page if self.media_type in SLIDES else None)
        heading = self._heading(start)
        path = heading.path if self.headings else headings
        if self.media_type not in SPREADSHEETS:
            row, row_end = self._rows_between(start, last + 1, text, offset)
            return Place(row=row, row_end=row_end, section=path)
        # What reaches into another sheet is told by its beginning.
        last = min(last, heading.end - 1) if heading.path else last
        row, row_end = self._rows_between(start, last + 1, text, offset)
        return Place(sheet=path[0].removesuffix(HIDDEN_MARK) if path else None, row=row, row_end=row_end)


def _row(span: RowSpan, position: int, text: str, offset: int) -> int:
    if span.first == span.last:
        return span.first
    return span.first + text.count("\n", span.start - offset, position - offset)


_NO_HEADING = HeadingSpan(path=(), start=0, end=0)


def _innermost(span: HeadingSpan) -> tuple[int, int]:
    return span.start, -span.end


class Layouts:
    """The layout of a whole document, asked for what of it touches a passage.

    Rows that no parser has recorded are counted in the text of a table, as far as that is certain.
    """

    def __init__(self, text: str, layout: Layout) -> None:
        self._layout = layout
        self._pages = sorted(layout.pages, key=_start)
        self._page_starts = [span.start for span in self._pages]
        self._rows = sorted(layout.rows, key=_start) or list(_counted(text, layout))
        self._row_starts = [span.start for span in self._rows]
        self._breaks = [found.start() for found in _BREAK.finditer(text)] if self._rows else []

    def of(self, start: int, end: int) -> Layout:
        """What says where `text[start:end]` stands."""
        first = max(bisect_right(self._page_starts, start) - 1, 0)
        return Layout(
            media_type=self._layout.media_type,
            pages=tuple(self._pages[first : max(bisect_left(self._page_starts, end), first + 1)]),
            headings=tuple(span for span in self._layout.headings if span.start < end and span.end > start),
            rows=self.rows(start, end),
        )

    def rows(self, start: int, end: int) -> tuple[RowSpan, ...]:
        """The rows in `text[start:end]`, where the first span begins with the row of its beginning."""
        first = max(bisect_right(self._row_starts, start) - 1, 0)
        last = bisect_left(self._row_starts, end)
        return tuple(self._cut(span, start, end) for span in self._rows[first:last] if span.end > start)

    def _cut(self, span: RowSpan, start: int, end: int) -> RowSpan:
        first = span.first
        if span.start < start and span.first < span.last:
            first += bisect_left(self._breaks, start) - bisect_left(self._breaks, span.start)
        return RowSpan(first=first, last=span.last, start=max(start, span.start), end=min(end, span.end))


def _start(span: PageSpan | RowSpan) -> int:
    return span.start


def rows_are_counted(media_type: str) -> bool:
    """Whether documents of this type that were stored without rows have some."""
    return media_type in SPREADSHEETS or media_type == DELIMITED


def _counted(text: str, layout: Layout) -> Iterator[RowSpan]:
    """Rows of spreadsheets that were stored before parsers recorded them.

    Each sheet is taken to begin in its first row, and the rows of its first table are counted. What
    comes behind that is left out: how many blank rows lie between is not known.
    """
    if not rows_are_counted(layout.media_type):
        return
    sheets = [(span.start, span.end) for span in layout.headings] or [(0, len(text))]
    for start, end in sheets:
        heading = text.find("\n", start, end) + 1 if layout.headings else start
        if heading >= start:
            yield from _first_table(text, heading, end)


def _first_table(text: str, position: int, end: int) -> Iterator[RowSpan]:
    """Lines above the table, a row each, its head, and its body."""
    above: list[RowSpan] = []
    table = _TABLE.search(text, position, end)
    if table is None:
        return
    number = 0
    for line in _LINE.finditer(text, position, table.start()):
        number += 1
        above.append(RowSpan(first=number, last=number, start=line.start(), end=line.end()))
    if table["head"].strip("| "):
        number += 1
        above.append(RowSpan(first=number, last=number, start=table.start("head"), end=table.end("head")))
    yield from above
    stop = text.find("\n\n", table.end(), end)
    stop = end if stop < 0 else stop
    body = text[table.end() : stop].rstrip("\n")
    if body:
        last = number + body.count("\n") + 1
        yield RowSpan(first=number + 1, last=last, start=table.end(), end=table.end() + len(body))


_BREAK = re.compile("\n")
_LINE = re.compile(r"[^\n]+")
_TABLE = re.compile(r"^(?P<head>\|[^\n]*)\n\|(?: --- \|)+\n?", re.MULTILINE)
