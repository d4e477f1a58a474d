"""cases/query_augment.jsonl: documents and options to prompts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragstone.augment import CitedContext
from ragstone.errors import InvalidStage
from ragstone.prompts import prompt_text
from ragstone.types import Chunk, Hit, Query
from shared_data import SHARED

pytestmark = pytest.mark.anyio
FILE = SHARED / "cases" / "query_augment.jsonl"
CASES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()] if FILE.exists() else []
# The cases call our {passages} "context" and our {question} "query".
PLACEHOLDERS = {"context": "{passages}", "query": "{question}"}


def hit(text: str) -> Hit:
    chunk = Chunk(text=text, document_id="d", index=0, start=0, end=len(text))
    return Hit(chunk=chunk, uri="u", title="")


@pytest.mark.parametrize("case", [case for case in CASES if "template_missing" in case])
def test_a_missing_placeholder_is_named(case: dict[str, Any]):
    missing = PLACEHOLDERS[case["template_missing"]]
    with pytest.raises(InvalidStage) as caught:
        CitedContext(template=prompt_text("answer", "en").replace(missing, ""))
    assert missing in str(caught.value)


@pytest.mark.parametrize("case", [case for case in CASES if case.get("documents") == []])
async def test_no_documents(case: dict[str, Any]):
    prompt = await CitedContext(allow_empty=case["allow_empty_context"])(Query("Why {x}?"), [])
    asked = prompt.messages[-1].content
    assert (asked == "Why {x}?") is case["allow_empty_context"]
    assert len(prompt.messages) == 1
    assert "Why {x}?" in asked


@pytest.mark.parametrize("case", [case for case in CASES if case.get("documents")])
async def test_documents_reach_the_prompt_unchanged_and_delimited(case: dict[str, Any]):
    prompt = await CitedContext(fence=lambda: "f0")(Query("Why?"), [hit(text) for text in case["documents"]])
    for text in case["documents"]:
        assert f"<f0>\n{text}\n</f0>" in prompt.messages[-1].content
