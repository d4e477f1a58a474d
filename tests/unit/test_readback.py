"""What is read from a chat model's output, however it is wrapped (W02, bug-30)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.readback import normalised, read_json, read_line, read_lines, read_text

THREE = ["pump service interval", "how often is the pump serviced", "P-200 maintenance"]
WRAPPINGS = [
    "{0}\n{1}\n{2}",
    "{0}\n\n\n{1}\n\n{2}\n",
    "<think>\n1. maybe {2}\n</think>\n{0}\n{1}\n{2}",
    "the user wants more</think>\n{0}\n{1}\n{2}",
    "1. {0}\n2. {1}\n3. {2}",
    "1) {0}\n2) {1}\n3) {2}",
    "1、{0}\n2、{1}\n3、{2}",
    "(1) {0}\n（2）{1}\n(3) {2}",
    "- {0}\n- {1}\n- {2}",
    "* **{0}**\n* **{1}**\n* **{2}**",
    "• {0}\n• {1}\n• {2}",
    "Query 1: {0}\nQuery 2: {1}\nQuery 3: {2}",
    "Here are three variants:\n{0}\n{1}\n{2}",
    "Of course! Here you are.\n\n1. {0}\n2. {1}\n3. {2}\n\nTell me if you need more.",
    "Sure! Here are three variants.\n{0}\n{1}\n{2}",
    "好的，以下是三种问法。\n{0}\n{1}\n{2}",
    '"{0}"\n"{1}"\n“{2}”',
    '["{0}", "{1}", "{2}"]',
    '```json\n{{"queries": ["{0}", "{1}", "{2}"]}}\n```',
    'Sure: {{"queries": ["{0}", "{1}", "{2}"]}} Done.',
    '[{{"query": "{0}"}}, {{"query": "{1}"}}, {{"query": "{2}"}}]',
    "```\n{0}\n{1}\n{2}\n```",
    "{0}\n{0}\n{1}\n{1}?\n{2}",
    "{0}\n{1}\n{2}\nsomething beyond the number",
]


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_w02_a_list_is_read_however_it_is_wrapped(wrapping: str) -> None:
    assert read_lines(wrapping.format(*THREE), 3) == THREE


@pytest.mark.parametrize("output", ["", "  \n\n", "<think>only this", "???\n---", "[]", "{}"])
def test_w02_nothing_is_read_from_nothing(output: str) -> None:
    assert read_lines(output, 3) == []
    assert read_line(output) == ""


def test_too_few_are_kept_and_numbers_within_a_text_stay() -> None:
    assert read_lines("one only", 3) == ["one only"]
    assert read_lines("1.5 bar pressure\n3 ways to stop", 3) == ["1.5 bar pressure", "3 ways to stop"]


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("how is the pump serviced", "how is the pump serviced"),
        ("<think>hm</think>\n\nhow is it\n", "how is it"),
        ("Rewritten query: how is it", "how is it"),
        ("Here is the rewritten question:\n\n“how is it”", "how is it"),
        ("改写后的问题：水泵怎么保养？", "水泵怎么保养？"),
        ('{"query": "how is it"}', "how is it"),
        ("```\nhow is it\n```", "how is it"),
        ("how is it\n\nI changed the wording.", "how is it"),
        ("Of course!\nhow is it", "how is it"),
        ("Sure.", "Sure."),
        ("Is it ok to run it dry?\nAnd why?", "Is it ok to run it dry?"),
        ('What does {"name": "test"} mean?', 'What does {"name": "test"} mean?'),
        ("Error in query: what to do?", "Error in query: what to do?"),
        ("x" * 2_000, ""),
    ],
)
def test_w12_one_text_is_read_on_one_line_or_not_at_all(output: str, line: str) -> None:
    assert read_line(output) == line


def test_free_text_keeps_its_lines_and_is_cut() -> None:
    assert (
        read_text("<think>x</think>Passage: no label\nline two", limit=100) == "Passage: no label\nline two"
    )
    assert read_text("word " * 100, limit=12) == "word word wo"


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ('text {"a": [1, 2]} text [3]', {"a": [1, 2]}),
        ('<think>{"a": 0}</think>{"b": "} ``` “x”"}', {"b": "} ``` “x”"}),
        ("[1, 2", None),
        ("no json", None),
        ("[" * 100_000, None),
    ],
)
def test_json_is_found_among_words(output: str, value: object) -> None:
    assert read_json(output) == value


@given(st.text(max_size=200), st.integers(1, 5))
@settings(deadline=None)
def test_w01_whatever_comes_the_result_is_short_distinct_and_not_blank(output: str, n: int) -> None:
    texts = read_lines(output, n)
    assert len(texts) <= n
    assert len({normalised(text) for text in texts}) == len(texts)
    assert all(text.strip() and "\n" not in text for text in [*texts, read_line(output) or "-"])


@given(st.lists(st.from_regex(r"[a-z]{3,8} [a-z]{3,8}", fullmatch=True), min_size=1, max_size=6, unique=True))
@settings(deadline=None)
def test_numbered_lists_of_any_texts_come_back(texts: list[str]) -> None:
    assert read_lines("\n".join(f"{n}. {text}" for n, text in enumerate(texts, 1)), 10) == texts
