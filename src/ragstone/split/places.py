"""Page, headings and repeated table header at a position of a document (pure)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from ragstone.split.tables import Table
from ragstone.types import Document, HeadingSpan, PageSpan


class Places:
    """What holds at a position; headings are asked for in rising order of positions."""

    def __init__(self, document: Document, tables: Sequence[Table] = ()) -> None:
        self._text = document.text
        self._tables = [table for table in tables if table.rows]
        self._table_starts = [table.body[0] for table in self._tables]
        self._pages = sorted(document.pages, key=_page_start)
        self._page_starts = [page.start for page in self._pages]
        self._waiting = sorted(document.headings, key=_outer_first, reverse=True)
        self._open: list[HeadingSpan] = []

    def page(self, position: int) -> int | None:
        if not self._pages:
            return None
        return self._pages[max(bisect_right(self._page_starts, position) - 1, 0)].number

    def table_header(self, position: int) -> str:
        """The header's line of the table whose rows `position` lies in; "" outside of tables."""
        found = bisect_right(self._table_starts, position) - 1
        if found < 0 or self._tables[found].body[1] <= position:
            return ""
        start, end = self._tables[found].header
        return self._text[start:end]

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
