"""Document -> Chunks with exact offsets (pure).

`recursive` is the splitter, `kinds` its variants by unit, `parents` and `whole` the other
ones. `cutter` packs units into chunks, `breaks` knows where a text may be cut, `tables`
where its tables are, `sizes` measures in tokens or characters, `context` writes the line
in front of a chunk, `places` knows its page and headings.
"""

from __future__ import annotations

from ragstone.split.context import context_of
from ragstone.split.kinds import (
    by_character,
    by_heading,
    by_line,
    by_paragraph,
    by_pattern,
    by_sentence,
    by_token,
    by_word,
)
from ragstone.split.parents import ParentChildSplitter
from ragstone.split.recursive import Level, RecursiveSplitter
from ragstone.split.whole import WholeDocument

__all__ = [
    "Level",
    "ParentChildSplitter",
    "RecursiveSplitter",
    "WholeDocument",
    "by_character",
    "by_heading",
    "by_line",
    "by_paragraph",
    "by_pattern",
    "by_sentence",
    "by_token",
    "by_word",
    "context_of",
]
