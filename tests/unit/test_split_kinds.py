"""The splitters by unit, by pattern, parent and child, whole; tables and code (A19 to A25)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.errors import InvalidStage
from ragstone.split import (
    ParentChildSplitter,
    RecursiveSplitter,
    WholeDocument,
    by_character,
    by_heading,
    by_line,
    by_paragraph,
    by_pattern,
    by_sentence,
    by_token,
    by_word,
)
from ragstone.testing import FakeEmbedder
from ragstone.types import Chunk, Document, HeadingSpan, PageSpan

TEXT = "# Oil\n\nUse thin oil. Shake it.\n\n- first item\n- second item"


def texts(chunks: list[Chunk]) -> list[str]:
    return [chunk.text for chunk in chunks]


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        (by_paragraph, ["# Oil\n\nUse thin oil. Shake it.", "- first item\n- second item"]),
        (by_sentence, ["# Oil\n\nUse thin oil. Shake it.", "- first item\n- second item"]),
        (by_word, ["# Oil\n\nUse thin oil. Shake it.\n\n-", "first item\n- second item"]),
        (by_character, ["# Oil\n\nUse thin oil. Shake it.\n\n- fi", "rst item\n- second item"]),
    ],
)
def test_a19_each_unit_is_cut_at_its_own_ends(
    split: Callable[..., RecursiveSplitter], expected: list[str]
) -> None:
    assert texts(split(max_size=36)(Document(text=TEXT))) == expected


def test_a19_lines_that_stand_alone_are_cut_wrapped_ones_are_not() -> None:
    text = "One sentence\nthat goes on.\n- an item\n- another one"
    assert texts(by_line(max_size=27)(Document(text=text))) == [
        "One sentence\nthat goes on.",
        "- an item\n- another one",
    ]


def test_a19_tokens_are_counted_by_the_tokenizer_and_nothing_else_matters() -> None:
    tokenizer = FakeEmbedder().tokenizer
    chunks = by_token(tokenizer=tokenizer, max_size=4, overlap=1)(
        Document(text="One two. Three four five. Six.")
    )
    assert [tokenizer.count(chunk.text) for chunk in chunks[:-1]] == [4] * (len(chunks) - 1)
    assert len(chunks) > 2


def test_a19_a_pattern_cuts_where_it_ends_or_in_front_of_something() -> None:
    law = "第一条 甲方付款。第二条 乙方交货，逾期加罚。第三条 其他。"
    assert texts(by_pattern("(?=第.条)", max_size=18)(Document(text=law))) == [
        "第一条 甲方付款。",
        "第二条 乙方交货，逾期加罚。",
        "第三条 其他。",
    ]
    assert texts(by_pattern(r"\n-{4}\n", max_size=12)(Document(text="one two\n----\nthree four"))) == [
        "one two\n----",
        "three four",
    ]
    with pytest.raises(InvalidStage, match="regular expression"):
        by_pattern("(", max_size=10)


def test_a23_sections_come_first_and_a_long_one_is_cut_within() -> None:
    text = "# Oil\n\nThin oil only, never thick.\n\n# Water\n\nRain water. Boil it. Cool it. Drink it."
    second = text.index("# Water")
    document = Document(
        text=text,
        title="Pump",
        headings=(
            HeadingSpan(path=("Oil",), start=0, end=second),
            HeadingSpan(path=("Water",), start=second, end=len(text)),
        ),
        pages=(PageSpan(number=4, start=0, end=second), PageSpan(number=5, start=second, end=len(text))),
        metadata={"source": "manual"},
    )
    chunks = by_heading(max_size=36)(document)
    assert [(chunk.index, chunk.headings, chunk.page, chunk.context) for chunk in chunks] == [
        (0, ("Oil",), 4, "Pump > Oil"),
        (1, ("Water",), 5, "Pump > Water"),
        (2, ("Water",), 5, "Pump > Water"),
    ]
    assert all(chunk.metadata == {"source": "manual"} for chunk in chunks)


def test_a25_a_document_may_stay_whole() -> None:
    document = Document(text="\n One. \n\n" + "Two. " * 500, title="T", metadata={"a": 1})
    (chunk,) = WholeDocument()(document)
    assert (chunk.text, chunk.start, chunk.context, chunk.metadata) == (
        document.text.strip(),
        2,
        "T",
        {"a": 1},
    )
    assert document.text[chunk.start : chunk.end] == chunk.text
    assert WholeDocument()(Document(text=" \n")) == []


SENTENCES = "".join(f"Sentence number {n} is here. " + ("\n\n" if n % 5 == 4 else "") for n in range(60))


def test_a24_children_lie_in_their_parents_which_cover_the_text() -> None:
    split = ParentChildSplitter(parent_size=400, child_size=80)
    document = Document(text=SENTENCES)
    chunks = split(document)
    parents = sorted({chunk.parent for chunk in chunks if chunk.parent})
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert all(
        chunk.parent and chunk.parent[0] <= chunk.start < chunk.end <= chunk.parent[1] for chunk in chunks
    )
    assert all(len(chunk.text) <= 80 for chunk in chunks)
    assert all(250 < end - start <= 400 for start, end in parents[:-1])
    assert " ".join(document.text[start:end] for start, end in parents).split() == document.text.split()
    assert split.identity != ParentChildSplitter(parent_size=500, child_size=80).identity


def test_a24_a_parent_must_be_larger_than_its_children() -> None:
    assert (ParentChildSplitter().parent_size, ParentChildSplitter().child_size) == (800, 100)
    with pytest.raises(InvalidStage, match="100"):
        ParentChildSplitter(parent_size=100, child_size=100)


def test_c17_small_chunks_are_joined_up_to_a_minimum() -> None:
    text = "# A\n\nOne two three.\n\n# B\n\nTwo three four five.\n\n" + "Six seven eight. " * 6
    starts = [text.index(name) for name in ("# A", "# B")]
    document = Document(
        text=text,
        headings=tuple(
            HeadingSpan(path=(text[start + 2],), start=start, end=end)
            for start, end in zip(starts, [*starts[1:], len(text)], strict=True)
        ),
    )
    plain = texts(RecursiveSplitter(max_size=60, overlap=0)(document))
    assert plain[:2] == ["# A\n\nOne two three.", "# B\n\nTwo three four five."]
    joined = texts(RecursiveSplitter(max_size=60, overlap=0, min_size=20)(document))
    assert joined == ["\n\n".join(plain[:2]), *plain[2:]]
    with pytest.raises(InvalidStage, match="min_size"):
        RecursiveSplitter(max_size=10, overlap=0, min_size=11)


TABLE = "Prices of the year:\n\n| Item | Price in yuan |\n| --- | --- |\n" + "\n".join(
    f"| pump number {n}. It is new | {n}00 |" for n in range(12)
)


def test_c16_a_long_table_is_cut_by_rows_and_its_header_repeated_in_the_context() -> None:
    document = Document(text=TABLE + "\n\nThat is all.", title="List")
    chunks = RecursiveSplitter(max_size=120, overlap=0)(document)
    assert len(chunks) > 3
    assert chunks[0].context == "List"
    for chunk in chunks[1:]:
        assert chunk.context == "List\n| Item | Price in yuan |"
        assert "Item" not in chunk.text
    for chunk in chunks:
        assert all(line.endswith("|") for line in chunk.text.split("\n") if line.startswith("|"))
    assert RecursiveSplitter(max_size=120, overlap=0, header_size=0)(document)[1].context == "List"


def test_a_row_is_cut_only_when_it_does_not_fit_alone() -> None:
    wide = "| " + "word " * 15 + "|"
    text = f"| a | b |\n| --- | --- |\n| x | y |\n{wide}\n{wide}\n| " + "long " * 40 + "|"
    chunks = texts(RecursiveSplitter(max_size=90, overlap=0)(Document(text=text)))
    assert chunks[1:3] == [wide, wide]
    assert max(map(len, chunks)) <= 90


def test_a_row_at_the_end_of_the_limit_is_moved_whole() -> None:
    wide = "| " + "a sentence. " * 8 + "|"
    text = f"Intro. \n\n| a | b |\n| --- | --- |\n| x | y |\n{wide}\n{wide}"
    assert texts(RecursiveSplitter(max_size=110, overlap=0)(Document(text=text)))[1:] == [wide, wide]


def test_the_repeated_header_is_shortened_to_its_limit() -> None:
    header = "| " + " | ".join(f"column {n}" for n in range(40)) + " |"
    text = f"{header}\n|{' --- |' * 40}\n" + "\n".join("| cell " * 40 + "|" for _ in range(4))
    tokenizer = FakeEmbedder().tokenizer
    chunks = RecursiveSplitter(max_size=100, overlap=0, tokenizer=tokenizer, context_size=10, header_size=20)(
        Document(text=text, title="A title")
    )
    assert all(tokenizer.count(chunk.embedding_text) <= 130 for chunk in chunks)
    assert chunks[-1].context.startswith("A title\n| column 0 |")
    assert chunks[-1].context.endswith("…")


def test_fenced_code_stays_whole_when_it_fits() -> None:
    code = "```python\n# set up\nx = 1\n\ny = 2\nprint(x + y)\n```"
    text = f"Some words in front of it. And more words.\n\n{code}\n\nWords behind it."
    chunks = texts(RecursiveSplitter(max_size=70, overlap=0)(Document(text=text)))
    assert any(code in chunk for chunk in chunks)
    small = texts(RecursiveSplitter(max_size=25, overlap=0)(Document(text=text)))
    assert max(map(len, small)) <= 25


ROWS = st.lists(st.lists(st.text("ab 中。.|", max_size=8), min_size=2, max_size=3), max_size=8)


@settings(deadline=None, max_examples=150)
@given(ROWS, st.integers(8, 80), st.integers(0, 7), st.integers(0, 8), st.booleans())
def test_tables_parents_and_minimum_keep_offsets_cover_and_limit(
    rows: list[list[str]], max_size: int, overlap: int, min_size: int, parents: bool
) -> None:
    lines = ["| a | b |", "|---|---|", *("| " + " | ".join(row) + " |" for row in rows)]
    text = "Intro.\n\n" + "\n".join(lines) + "\n\n```\ncode\n\nmore\n```\nEnd."
    split: RecursiveSplitter | ParentChildSplitter = (
        ParentChildSplitter(parent_size=max_size + 20, child_size=max_size, overlap=overlap)
        if parents
        else RecursiveSplitter(max_size=max_size, overlap=overlap, min_size=min_size)
    )
    chunks = split(Document(text=text))
    covered: set[int] = set()
    for index, chunk in enumerate(chunks):
        assert (chunk.index, chunk.text) == (index, text[chunk.start : chunk.end])
        assert len(chunk.text) <= max_size
        covered.update(range(chunk.start, chunk.end))
    assert all(text[place].isspace() for place in set(range(len(text))) - covered)


LOG = "\n".join(
    f"2026-03-{1 + n % 28:02d} 10:{n % 60:02d}:00 INFO request {n} took {37 * n} ms. Next {'x' * (n % 23)} s."
    for n in range(120)
)
WRAPPED = "\n".join(
    [
        "The harbour was built between 1884 and 1889. It has three piers, of which the",
        "longest reaches out for 740 metres. Ships of up to six metres of draught can",
        "come in at any tide. A lighthouse stands at the end of the longest pier. Its",
        "lamp was replaced in 1931 and can be seen from a distance of eighteen miles.",
    ]
    * 4
)


@pytest.mark.parametrize("overlap", [0, 60])
@pytest.mark.parametrize("kind", ["line", "section"])
def test_a_line_of_a_log_that_fits_is_never_torn(kind: Literal["line", "section"], overlap: int) -> None:
    chunks = RecursiveSplitter(max_size=600, overlap=overlap, level=kind)(Document(text=LOG))
    assert len(chunks) > 10
    assert all(chunk.text.startswith("2026-") and chunk.text.endswith("s.") for chunk in chunks)


def test_lines_of_wrapped_prose_stay_joined_and_by_line_keeps_each() -> None:
    chunks = RecursiveSplitter(max_size=300, overlap=0)(Document(text=WRAPPED))
    assert all(chunk.text.endswith(".") for chunk in chunks)
    by_lines = by_line(max_size=200)(Document(text=WRAPPED))
    assert all(line in WRAPPED.split("\n") for chunk in by_lines for line in chunk.text.split("\n"))
