"""Cleaners, from document to document before it is split, and transformers of chunks after it.

`clean` is the default: running headers, footers and page numbers go, words and Chinese
lines broken at a line's end are joined, blanks are tidied. `ragstone parse` prints what it
leaves, and all offsets count in that text: pages, headings and boxes follow every change.
Further ones are functions of the same shape; `edited` does their bookkeeping, `chained`
joins them.
"""

from __future__ import annotations

from ragstone.clean.blanks import tidy_blanks
from ragstone.clean.edits import Edit, chained, edited, revised
from ragstone.clean.enrich import enriched, file_name, keep_if, prefixed
from ragstone.clean.html import html_to_text
from ragstone.clean.lines import join_lines
from ragstone.clean.running import drop_running_lines
from ragstone.types import Document

CLEANER_REVISION = "2"
"""Part of every stored document's revision: raised when `clean` leaves another text."""

__all__ = [
    "CLEANER_REVISION",
    "Edit",
    "chained",
    "clean",
    "drop_running_lines",
    "edited",
    "enriched",
    "file_name",
    "html_to_text",
    "join_lines",
    "keep_if",
    "prefixed",
    "tidy_blanks",
]


@revised(f"clean/{CLEANER_REVISION}")
def clean(document: Document) -> Document:
    """The default cleaner: takes away what a page adds around its text, never the text itself."""
    return tidy_blanks(join_lines(drop_running_lines(tidy_blanks(document))))
