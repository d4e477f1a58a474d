"""Sentence spans in Chinese, English and mixed text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.sentences import ITEM_LENGTH, sentences


def parts(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("井水很冷。谁先下去？我去！", ["井水很冷。", "谁先下去？", "我去！"]),
        ("先关电源；再开盖子。", ["先关电源；", "再开盖子。"]),
        ("他等了很久……没有人来。", ["他等了很久……", "没有人来。"]),
        ("她说：“走吧！”大家走了。", ["她说：“走吧！”", "大家走了。"]),
        ("“真的？”，他问。", ["“真的？”，他问。"]),
        ("（见附录。）下一节。", ["（见附录。）", "下一节。"]),
        ("圆周率约3.14。版本v1.2.3已发布。", ["圆周率约3.14。", "版本v1.2.3已发布。"]),
        ("先装Redis.然后启动!好了", ["先装Redis.", "然后启动!", "好了"]),
    ],
)
def test_chinese_marks_end_sentences_with_their_closing_quotes(text: str, expected: list[str]) -> None:
    assert parts(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It rains. We stay! Why? Ask.", ["It rains.", "We stay!", "Why?", "Ask."]),
        ("Dr. Lund saw J. R. Moss. He waved.", ["Dr. Lund saw J. R. Moss.", "He waved."]),
        ("Use a lamp, e.g. Model B. It works.", ["Use a lamp, e.g. Model B.", "It works."]),
        ("He moved to the U.S. The house stayed.", ["He moved to the U.S.", "The house stayed."]),
        ("The U.S. Senate met. It voted.", ["The U.S. Senate met.", "It voted."]),
        ("See No. 7 and Fig. 2. Then go on.", ["See No. 7 and Fig. 2.", "Then go on."]),
        ("The answer was no. Nobody asked.", ["The answer was no.", "Nobody asked."]),
        ("It costs 3.14 in v1.2.3. Fine.", ["It costs 3.14 in v1.2.3.", "Fine."]),
        ("That was 1987. Times changed.", ["That was 1987.", "Times changed."]),
        (
            "See https://a.example/b.html?c=1. Write to x.y@a.example. Done.",
            ["See https://a.example/b.html?c=1.", "Write to x.y@a.example.", "Done."],
        ),
        ("Well... maybe not. Wait... Now.", ["Well... maybe not.", "Wait...", "Now."]),
        ('"Stop!" he cried. She ran.', ['"Stop!" he cried.', "She ran."]),
        ("(It was late.) They left.", ["(It was late.)", "They left."]),
        ("It grew.[3] It fell.", ["It grew.[3]", "It fell."]),
        ("Chapter 1 ........ 12", ["Chapter 1 ........ 12"]),
    ],
)
def test_english_stops_are_told_from_abbreviations_numbers_and_addresses(
    text: str, expected: list[str]
) -> None:
    assert parts(text) == expected


def test_a_wrapped_line_goes_on_and_a_blank_line_ends() -> None:
    assert parts("The bridge is\r\nclosed today\r\n \r\nUse the ferry") == [
        "The bridge is\r\nclosed today",
        "Use the ferry",
    ]


def test_headings_items_and_table_rows_are_units() -> None:
    text = "# Care. And use\nOil it. Wipe\nit.\n- First. Cool it\n  down.\n2. Then rest\n"
    text += "| a. B | c |\n|---|---|\nEnd"
    assert parts(text) == [
        "# Care. And use",
        "Oil it.",
        "Wipe\nit.",
        "- First. Cool it\n  down.",
        "2. Then rest",
        "| a. B | c |",
        "|---|---|",
        "End",
    ]


def test_a_long_item_is_cut_into_its_sentences_but_not_behind_its_number() -> None:
    long = "It hums. " * (ITEM_LENGTH // 9 + 1)
    assert parts(f"1. Look. {long}")[:2] == ["1. Look.", "It hums."]


def test_lines_of_fenced_code_are_units_and_an_open_fence_changes_nothing() -> None:
    assert parts("```\na = 1. B\n\nb = 2\n```\nOne. Two.") == [
        "```",
        "a = 1. B",
        "b = 2",
        "```",
        "One.",
        "Two.",
    ]
    assert parts("```\nOne. Two\nthree.") == ["```\nOne.", "Two\nthree."]


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.text(alphabet="ab .。！？…”)\n\r\u2028|-#1)`*“（"), st.text()))
def test_spans_are_trimmed_ordered_and_cover_everything_but_space(text: str) -> None:
    spans = sentences(text)
    position, between = 0, ""
    for start, end in spans:
        assert position <= start < end
        assert text[start:end] == text[start:end].strip()
        between += text[position:start]
        position = end
    assert (between + text[position:]).strip() == ""


@pytest.mark.parametrize("piece", ["x", "x ", ".", ". (", "[1]", "汉", "- a\n", "\u00a0\n", "```\n", "。”"])
def test_a_megabyte_without_an_end_is_read_like_any_text(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    spans = sentences(text)
    assert spans == [] if not text.strip() else spans[-1][1] == len(text.rstrip())
