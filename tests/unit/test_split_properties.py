"""What holds for the chunks of any text, in characters and in tokens."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.protocols import Tokenizer
from ragstone.split import Level, RecursiveSplitter
from ragstone.testing import FakeEmbedder
from ragstone.types import Chunk, Document, HeadingSpan


class FourTokenizer:
    """Tokens of up to four characters, counted from the left, and one for the beginning.

    A slice has other tokens than the same stretch within the text, as with real
    subword tokenizers, only more so.
    """

    def count(self, text: str) -> int:
        return len(self.offsets(text)) + 1

    def offsets(self, text: str) -> list[tuple[int, int]]:
        found = [match.span() for match in re.finditer(r"\S{1,4}", text)]
        # A character may be several tokens, and a token may have no width.
        return [span for span in found for _ in range(2 if "é" in text[slice(*span)] else 1)]


PIECES = st.sampled_from(
    [
        "word",
        "a",
        "longerword",
        "。",
        "！",
        "，",
        "中文",
        "这是一句话。",
        "A sentence. ",
        "3.14",
        "é",
        "e\u0301",
        "\n",
        "\n\n",
        "\r\n",
        " ",
        "   ",
        "\u00a0",
        "\t",
        "\u3000",
        "# Title\n",
        "- item\n",
        "| a | b |\n",
        "```\n",
        "👨\u200d👩\u200d👧",
        "🇨🇳",
        "\x00",
        "\u200b",
        "\ud83d",
        "…",
        "...",
        "Dr. ",
        "x" * 40,
        "”",
        ")",
        "\f",
        "\u2028",
    ]
)
TEXTS = st.one_of(st.lists(PIECES, max_size=60).map("".join), st.text(max_size=200))
TOKENIZERS: list[Tokenizer | None] = [None, FakeEmbedder().tokenizer, FourTokenizer()]


@st.composite
def documents(draw: st.DrawFn) -> Document:
    text = draw(TEXTS)
    starts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4, unique=True)))
    ends = [*starts[1:], len(text)]
    spans = [
        HeadingSpan(path=("Part", str(start)), start=start, end=end)
        for start, end in zip(starts, ends, strict=False)
    ]
    return Document(text=text, title="T", headings=tuple(spans))


@st.composite
def splitters(draw: st.DrawFn, tokenizer: Tokenizer | None) -> RecursiveSplitter:
    # Below 4 a single character may have more tokens than the limit.
    max_size = draw(st.integers(4, 60))
    return RecursiveSplitter(
        max_size=max_size,
        overlap=draw(st.integers(0, max_size - 1)),
        tokenizer=tokenizer,
        level=draw(st.sampled_from(get_args(Level))),
    )


def uncovered(text: str, chunks: list[Chunk]) -> str:
    covered: set[int] = set()
    for chunk in chunks:
        covered.update(range(chunk.start, chunk.end))
    return "".join(c for i, c in enumerate(text) if i not in covered and not c.isspace())


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=["characters", "words", "fours"])
@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_chunks_are_exact_bounded_complete_and_move_forward(
    tokenizer: Tokenizer | None, data: st.DataObject
) -> None:
    document = data.draw(documents())
    splitter = data.draw(splitters(tokenizer))
    chunks = splitter(document)
    size = len if tokenizer is None else tokenizer.count

    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert uncovered(document.text, chunks) == ""
    for chunk in chunks:
        assert chunk.text == document.text[chunk.start : chunk.end]
        assert chunk.text == chunk.text.strip() != ""
        assert size(chunk.text) <= splitter.max_size
    for before, after in pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end
        if not isinstance(tokenizer, FourTokenizer):
            assert size(document.text[after.start : max(before.end, after.start)]) <= splitter.overlap
    assert len({chunk.chunk_id for chunk in chunks}) == len(chunks)


@settings(deadline=None, max_examples=200)
@given(text=TEXTS, max_size=st.integers(1, 3))
def test_sizes_below_one_character_still_end_and_divide_no_code_point(text: str, max_size: int) -> None:
    tokenizer = FourTokenizer()
    chunks = RecursiveSplitter(max_size=max_size, overlap=0, tokenizer=tokenizer)(Document(text=text))
    assert uncovered(text, chunks) == ""
    assert all(tokenizer.count(chunk.text) <= max_size or len(chunk.text) == 1 for chunk in chunks)


@settings(deadline=None, max_examples=200)
@given(document=documents())
def test_without_overlap_no_character_is_in_two_chunks(document: Document) -> None:
    chunks = RecursiveSplitter(max_size=20, overlap=0)(document)
    assert all(before.end <= after.start for before, after in pairwise(chunks))
