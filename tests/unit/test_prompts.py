"""Prompt files and the renderer."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.augment import CitedContext
from ragstone.errors import InvalidSetting, InvalidStage
from ragstone.prompts import Template, own_prompts, parts, prompt_text, refusal, worded
from ragstone.testing.chat import FakeChatModel
from ragstone.transform import Rewrite
from ragstone.types import Query


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


def test_a101_own_words_replace_ours_in_both_languages_or_in_one():
    assert worded("refusal", "no") == {"en": "no", "zh": "no"}
    assert worded("refusal", {"zh": "无"}) == {"en": prompt_text("refusal", "en"), "zh": "无"}
    assert worded("refusal", None) == worded("refusal", {}) == worded("refusal", "")
    assert refusal("zh", {"zh": "无"}) == "无"


def test_a101_a_folder_of_prompts_goes_to_the_stages_that_use_them(tmp_path: Path):
    (tmp_path / "rewrite.zh.md").write_bytes("\ufeff# system\n简短。\n# user\n{target}：{query}\n".encode())
    (tmp_path / "notes.txt").write_text("no prompt")
    own, chat = own_prompts(tmp_path), FakeChatModel("x y")
    assert set(own) == {"rewrite"}
    rewrite = Rewrite(chat, template=own["rewrite"])
    for question in ("水泵怎么保养？", "How is it serviced?"):
        anyio.run(rewrite, Query(question))
    assert [message.content for message in chat.requests[0]] == ["简短。", "vector store：水泵怎么保养？"]
    assert "Reword the question" in chat.requests[1][0].content


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        ("anwser.en.md", b"x", "answer, compress"),
        ("answer.fr.md", b"x", "answer.fr.md"),
        ("refusal.en.md", b" \n", "refusal.en.md"),
        ("refusal.zh.md", b"\xce\xde", "refusal.zh.md"),
    ],
)
def test_a101_a_file_that_is_no_prompt_is_named(tmp_path: Path, file: str, content: bytes, named: str):
    (tmp_path / file).write_bytes(content)
    with pytest.raises(InvalidSetting, match=named):
        own_prompts(tmp_path)
    with pytest.raises(InvalidSetting, match="nowhere"):
        own_prompts(tmp_path / "nowhere")


def test_a10_a_stray_brace_is_text_and_a_stray_name_is_refused():
    CitedContext(template="{ {passages} } {question} {")
    for wrong in ("{passages} {question} {user}", {"zh": "{passages} {question} {user}"}):
        with pytest.raises(InvalidStage, match=r"\{user\}"):
            CitedContext(template=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidStage, match=r"empty\.zh"):
        CitedContext(empty={"zh": "没有"})
