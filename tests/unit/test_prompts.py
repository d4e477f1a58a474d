"""Prompt files and the renderer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.errors import InvalidStage
from ragstone.prompts import Template, parts, prompt_text, refusal


def test_a_value_is_inserted_as_it_is_and_never_read_as_a_template():
    template = Template("Q: {question} P: {passages}", required=("question", "passages"))
    hostile = 'code {x} and {"name": 1} and $y and {{z}} and %s and {passages}'
    assert template.render(question=hostile, passages="{question}") == f"Q: {hostile} P: {{question}}"


@settings(deadline=None)
@given(st.text(), st.text())
def test_any_two_values_come_out_unchanged(first: str, second: str):
    rendered = Template("<{a}|{b}>", required=("a", "b")).render(a=first, b=second)
    assert rendered == f"<{first}|{second}>"


@pytest.mark.parametrize("missing", ["question", "passages"])
def test_a10_a_missing_placeholder_is_named(missing: str):
    text = "{question} {passages}".replace(f"{{{missing}}}", "")
    with pytest.raises(InvalidStage, match=rf"\{{{missing}\}}") as caught:
        Template(text, required=("question", "passages"), name="mine")
    assert "mine" in caught.value.text("zh")


def test_an_unknown_placeholder_is_named_and_other_braces_are_text():
    with pytest.raises(InvalidStage, match=r"\{qestion\}"):
        Template("{question} {qestion}", required=("question",))
    assert Template('{"json": [{question}]} { } {X}', required=("question",)).render(question="1") == (
        '{"json": [1]} { } {X}'
    )


def test_a_text_without_headings_is_the_users_part():
    assert parts("just {question}") == {"user": "just {question}"}
    assert parts("# system\n\nrules\n\n# user\n\nask") == {"system": "rules", "user": "ask"}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_prompt_exists_in_both_languages(language):
    assert set(parts(prompt_text("answer", language))) == {"system", "user"}
    assert "{question}" in prompt_text("empty", language)
    assert refusal(language)
    assert "<no-answer/>" in prompt_text("answer", language)


def test_the_refusal_is_in_its_language():
    assert "没有找到" in refusal("zh")
    assert refusal("en").isascii()
