"""The splitters by the unit they cut at, each a `RecursiveSplitter` that begins lower down.

Sizes count tokens of `tokenizer`, or code points without one. A unit that does not fit
alone is cut at the next smaller ones.
"""

from __future__ import annotations

from ragstone.protocols import Tokenizer
from ragstone.split.recursive import RecursiveSplitter


def by_heading(*, max_size: int, overlap: int = 0, tokenizer: Tokenizer | None = None) -> RecursiveSplitter:
    """Structure first: sections under their headings, each cut further only when it is too long."""
    return RecursiveSplitter(max_size=max_size, overlap=overlap, tokenizer=tokenizer, level="section")


def by_paragraph(*, max_size: int, overlap: int = 0, tokenizer: Tokenizer | None = None) -> RecursiveSplitter:
    """Paragraphs, parted by blank lines."""
    return RecursiveSplitter(max_size=max_size, overlap=overlap, tokenizer=tokenizer, level="paragraph")


def by_line(*, max_size: int, overlap: int = 0, tokenizer: Tokenizer | None = None) -> RecursiveSplitter:
    """Lines: one that fits is never cut; one that does not is cut at its sentences."""
    return RecursiveSplitter(max_size=max_size, overlap=overlap, tokenizer=tokenizer, level="line")


def by_sentence(*, max_size: int, overlap: int = 0, tokenizer: Tokenizer | None = None) -> RecursiveSplitter:
    """Sentences, Chinese, English and mixed."""
    return RecursiveSplitter(max_size=max_size, overlap=overlap, tokenizer=tokenizer, level="sentence")


def by_word(*, max_size: int, overlap: int = 0, tokenizer: Tokenizer | None = None) -> RecursiveSplitter:
    """Words; where Chinese has no spaces, its commas and full stops."""
    return RecursiveSplitter(max_size=max_size, overlap=overlap, tokenizer=tokenizer, level="word")


def by_character(*, max_size: int, overlap: int = 0, tokenizer: Tokenizer | None = None) -> RecursiveSplitter:
    """Visible characters: every chunk as full as can be."""
    return RecursiveSplitter(max_size=max_size, overlap=overlap, tokenizer=tokenizer, level="character")


def by_token(*, tokenizer: Tokenizer, max_size: int = 300, overlap: int = 30) -> RecursiveSplitter:
    """Windows of tokens, cut between visible characters, whatever the text says."""
    return RecursiveSplitter(max_size=max_size, overlap=overlap, tokenizer=tokenizer, level="character")


def by_pattern(
    pattern: str, *, max_size: int, overlap: int = 0, tokenizer: Tokenizer | None = None
) -> RecursiveSplitter:
    """At the end of each match of a regular expression; `(?=...)` cuts in front of something.

    Raises:
        InvalidStage: `pattern` is no regular expression.
    """
    return RecursiveSplitter(
        max_size=max_size, overlap=overlap, tokenizer=tokenizer, level="paragraph", pattern=pattern
    )
