"""The recursive splitter on small documents."""

from __future__ import annotations

import pytest

from ragstone.errors import InvalidStage
from ragstone.split import RecursiveSplitter, context_of
from ragstone.testing import FakeEmbedder
from ragstone.types import Chunk, Document, HeadingSpan, PageSpan


def split(text: str, *, max_size: int = 40, overlap: int = 0) -> list[str]:
    chunks = RecursiveSplitter(max_size=max_size, overlap=overlap)(Document(text=text))
    return [chunk.text for chunk in chunks]


def with_headings(text: str, *, title: str = "") -> Document:
    """A document whose `#` lines are headings, each over the text up to the next."""
    starts = [i for i in range(len(text)) if text[i] == "#" and (i == 0 or text[i - 1] == "\n")]
    spans: list[HeadingSpan] = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        name = text[start:].split("\n")[0].lstrip("# ")
        spans.append(HeadingSpan(path=("Manual", name), start=start, end=end))
    return Document(text=text, title=title, headings=tuple(spans))


def test_paragraphs_are_packed_while_they_fit() -> None:
    text = "The pump is new.\n\nIt is loud.\n\nNobody minds the noise at all."
    assert split(text) == ["The pump is new.\n\nIt is loud.", "Nobody minds the noise at all."]


def test_a_paragraph_that_does_not_fit_is_cut_at_sentences_then_words() -> None:
    assert split("水泵是新的。它很响。没人介意噪音。", max_size=10) == [
        "水泵是新的。它很响。",
        "没人介意噪音。",
    ]
    assert split("one two three four five", max_size=12) == ["one two", "three four", "five"]


def test_w07_c26_a_chinese_sentence_that_does_not_fit_is_cut_at_its_commas() -> None:
    assert split("水泵坏了以后，我们先关掉电源，再打开盖子检查叶轮", max_size=16) == [
        "水泵坏了以后，我们先关掉电源，",
        "再打开盖子检查叶轮",
    ]


def test_a_wrapped_line_is_a_worse_place_than_a_sentence_end() -> None:
    text = "The valve is\nstuck. Turn it gently\nto the left."
    assert split(text, max_size=30) == ["The valve is\nstuck.", "Turn it gently\nto the left."]


def test_no_visible_character_is_divided() -> None:
    family = "👨\u200d👩\u200d👧"
    assert split(family * 3, max_size=7) == [family] * 3
    assert split("🇨🇳🇫🇷", max_size=3) == ["🇨🇳", "🇫🇷"]
    assert split("e\u0301" * 3, max_size=3) == ["e\u0301"] * 3


def test_a20_the_overlap_is_whole_sentences_within_its_size() -> None:
    text = "Ants dig. Bees hum. Cats nap. Dogs run. Eels swim."
    assert split(text, max_size=30, overlap=12) == [
        "Ants dig. Bees hum. Cats nap.",
        "Cats nap. Dogs run. Eels swim.",
    ]
    assert split(text, max_size=30, overlap=8)[1] == "Dogs run. Eels swim."


def test_the_overlap_gives_way_to_a_unit_that_fits_only_without_it() -> None:
    assert split("Ants dig. Bees hum. The long last one.", max_size=20, overlap=9) == [
        "Ants dig. Bees hum.",
        "The long last one.",
    ]


def test_inside_a_sentence_words_or_characters_overlap() -> None:
    assert split("aa bb cc dd ee", max_size=8, overlap=3) == ["aa bb cc", "cc dd ee"]
    assert split("x" * 12, max_size=8, overlap=2) == ["x" * 8, "x" * 6]


def test_a_better_break_is_taken_when_the_chunk_is_a_third_full() -> None:
    text = "Short paragraph here.\n\nA second one begins. It goes on for a while. And ends."
    assert split(text, max_size=50)[0] == "Short paragraph here."


def test_a_heading_stays_with_its_text_and_nothing_overlaps_into_a_section() -> None:
    document = with_headings("# Oil\n\nUse thin oil only.\n\n# Water\n\nUse rain water. Boil it first.")
    # The last sentence of the first section would fit in front of the second one.
    chunks = RecursiveSplitter(max_size=60, overlap=20)(document)
    assert [chunk.text for chunk in chunks] == [
        "# Oil\n\nUse thin oil only.",
        "# Water\n\nUse rain water. Boil it first.",
    ]
    assert [chunk.headings for chunk in chunks] == [("Manual", "Oil"), ("Manual", "Water")]


def test_a_section_ends_a_chunk_that_is_a_tenth_full() -> None:
    document = with_headings("# Oil\n\nThin.\n\n# Water\n\nUse rain water only. Boil it before you drink it.")
    chunks = RecursiveSplitter(max_size=50, overlap=0)(document)
    assert [chunk.text for chunk in chunks] == [
        "# Oil\n\nThin.",
        "# Water\n\nUse rain water only.",
        "Boil it before you drink it.",
    ]
    tiny = RecursiveSplitter(max_size=200, overlap=0)(document)
    assert len(tiny) == 1


def test_a_heading_is_not_left_behind_at_the_end_of_a_chunk() -> None:
    text = "Some words to begin.\n\n# Water\n\nUse rain water only."
    assert split(text, max_size=30) == ["Some words to begin.", "# Water\n\nUse rain water only."]
    plain = "Some words to begin.\n\nWater\n\nUse rain water only."
    document = Document(
        text=plain, headings=(HeadingSpan(path=("Water",), start=plain.index("Water"), end=len(plain)),)
    )
    chunks = RecursiveSplitter(max_size=30, overlap=0)(document)
    assert [chunk.text for chunk in chunks] == ["Some words to begin.", "Water\n\nUse rain water only."]


def test_a_heading_stays_with_the_beginning_of_text_that_is_too_long() -> None:
    body = "the water of this well is good for nothing but the garden"
    marked = split(f"# On water\n\n{body}", max_size=24)
    assert marked[0] == "# On water\n\nthe water of"
    for heading, first in (
        ("On water", "On water\n\nthe water of"),
        ("On *water*\n---", "On *water*\n---\n\nthe water"),
    ):
        text = f"{heading}\n\n{body}"
        document = Document(text=text, headings=(HeadingSpan(path=("On Water",), start=0, end=len(text)),))
        assert RecursiveSplitter(max_size=25, overlap=0)(document)[0].text == first


def test_where_no_sentence_ends_a_line_end_is_better_than_a_space() -> None:
    assert split("alpha beta\ngamma delta\nepsilon", max_size=16) == ["alpha beta", "gamma delta", "epsilon"]


def test_a_word_is_not_cut_when_it_fits_alone() -> None:
    assert split("ab " + "x" * 19, max_size=20) == ["ab", "x" * 19]


def test_a20_a23_chunks_carry_page_metadata_and_place() -> None:
    document = Document(
        text="First page.\n\nSecond page.",
        pages=(PageSpan(number=1, start=0, end=13), PageSpan(number=2, start=13, end=25)),
        metadata={"year": 2020},
    )
    chunks = RecursiveSplitter(max_size=15, overlap=0)(document)
    assert [(chunk.page, chunk.index, chunk.start, chunk.end) for chunk in chunks] == [
        (1, 0, 0, 11),
        (2, 1, 13, 25),
    ]
    assert all(chunk.metadata == {"year": 2020} for chunk in chunks)
    assert all(chunk.document_id == document.document_id for chunk in chunks)


def test_nested_headings_give_the_innermost_path() -> None:
    text = "aaaa bbbb cccc"
    document = Document(
        text=text,
        headings=(
            HeadingSpan(path=("A",), start=0, end=14),
            HeadingSpan(path=("A", "B"), start=5, end=9),
        ),
    )
    chunks = RecursiveSplitter(max_size=4, overlap=0)(document)
    assert [chunk.headings for chunk in chunks] == [("A",), ("A", "B"), ("A",)]


def test_a_blank_document_has_no_chunks() -> None:
    assert split("") == split(" \n\u00a0\n ") == []


def test_sizes_are_tokens_of_the_tokenizer_given() -> None:
    tokenizer = FakeEmbedder().tokenizer
    text = "The quick pump starts. 水泵启动。The slow pump stops."
    chunks = RecursiveSplitter(max_size=10, overlap=0, tokenizer=tokenizer)(Document(text=text))
    assert [chunk.text for chunk in chunks] == ["The quick pump starts. 水泵启动。", "The slow pump stops."]


class Greedy:
    """Counts a slice higher than the same stretch of the whole text."""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        return [(i, i + 1) for i in range(len(text))]

    def count(self, text: str) -> int:
        return len(text) + 3


def test_c23_the_limit_holds_when_a_slice_has_more_tokens_than_its_stretch() -> None:
    document = Document(text="One two three. " * 20)
    chunks = RecursiveSplitter(max_size=20, overlap=5, tokenizer=Greedy())(document)
    assert chunks
    assert all(Greedy().count(chunk.text) <= 20 for chunk in chunks)


def test_text_longer_than_one_stretch_of_tokens_is_exact() -> None:
    tokenizer = FakeEmbedder().tokenizer
    text = "".join(f"Line {n} holds 一些内容。\n" for n in range(8_000))
    chunks = RecursiveSplitter(max_size=50, overlap=0, tokenizer=tokenizer)(Document(text=text))
    assert "".join(chunk.text + "\n" for chunk in chunks) == text
    # 8 tokens a line: six lines a chunk, wherever the stretches end.
    assert {chunk.text.count("\n") for chunk in chunks[:-1]} == {5}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_size": 100, "overlap": 100}, ("100", "overlap", "max_size")),
        ({"max_size": 100, "overlap": 150}, ("100", "150")),
        ({"max_size": 0, "overlap": 0}, ("max_size", "0")),
        ({"max_size": True, "overlap": 0}, ("max_size", "True")),
        ({"max_size": 10.5, "overlap": 0}, ("max_size", "10.5")),
        ({"overlap": -1}, ("overlap", "-1")),
        ({"context_size": -1}, ("context_size", "-1")),
        ({"level": "page"}, ("page", "paragraph")),
    ],
)
def test_sizes_that_cannot_work_are_refused_by_name(
    options: dict[str, object], words: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidStage) as caught:
        RecursiveSplitter(**options)  # type: ignore[arg-type]
    assert all(word in str(caught.value) and word in caught.value.text("zh") for word in words)


def test_the_identity_changes_with_what_changes_the_chunks() -> None:
    tokenizer = FakeEmbedder().tokenizer
    variants = [
        RecursiveSplitter(),
        RecursiveSplitter(max_size=200),
        RecursiveSplitter(overlap=20),
        RecursiveSplitter(tokenizer=tokenizer),
        RecursiveSplitter(level="word"),
        RecursiveSplitter(context_size=0),
    ]
    assert len({splitter.identity for splitter in variants}) == len(variants)


def context(title: str, *headings: str, limit: int = 40) -> str:
    return context_of(title, headings, limit=limit)


def test_the_context_is_title_and_headings_each_once() -> None:
    assert context("Manual", "Pump", "Oil") == "Manual > Pump > Oil"
    assert context("Manual", "manual", "Oil") == "manual > Oil"
    assert context("", "A\n b") == "A b"
    assert context(" ") == ""


def test_a_long_context_drops_outer_headings_then_shortens() -> None:
    assert context("Manual", "A very long chapter heading", "Oil", limit=20) == "Manual > Oil"
    shortened = context("A title that goes on and on", "A heading that goes on too", limit=20)
    assert len(shortened) <= 20
    assert shortened.startswith("A")
    assert "…" in shortened
    assert context("Manual", limit=0) == ""
    tokenizer = FakeEmbedder().tokenizer
    limited = context_of("一二三四五六七八九十", ("章",), limit=6, tokenizer=tokenizer)
    assert limited == "一二三… > 章"
    assert tokenizer.count(limited) == 6


def test_c16_every_chunk_has_the_context_of_its_start() -> None:
    document = with_headings("# Oil\n\nUse thin oil only.\n\n# Water\n\nUse rain water.", title="Pump")
    first, second = RecursiveSplitter(max_size=30, overlap=0)(document)
    assert isinstance(first, Chunk)
    assert (first.context, second.context) == ("Pump > Manual > Oil", "Pump > Manual > Water")
    assert second.embedding_text == "Pump > Manual > Water\n# Water\n\nUse rain water."
    bare = RecursiveSplitter(max_size=30, overlap=0, context_size=0)(document)
    assert [chunk.context for chunk in bare] == ["", ""]


@pytest.mark.parametrize(("max_size", "overlap"), [(300, 30), (500, 50)])
def test_a21_a22_c5_sizes_of_300_and_500_tokens_hold_and_lose_nothing(max_size: int, overlap: int) -> None:
    assert (RecursiveSplitter().max_size, RecursiveSplitter().overlap) == (300, 30)
    tokenizer = FakeEmbedder().tokenizer
    text = "\n\n".join(
        f"第{n}条 付款期限为三十天。 Clause {n} names the price and the term." for n in range(400)
    )
    chunks = RecursiveSplitter(max_size=max_size, overlap=overlap, tokenizer=tokenizer)(Document(text=text))
    assert all(tokenizer.count(chunk.text) <= max_size for chunk in chunks)
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    covered = {place for chunk in chunks for place in range(chunk.start, chunk.end)}
    assert all(sign.isspace() for place, sign in enumerate(text) if place not in covered)
