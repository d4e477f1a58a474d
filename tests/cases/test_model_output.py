"""query_expansion.jsonl and llm_json.jsonl: what is read from a model's output."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragstone.expand import MultiQuery
from ragstone.readback import read_json, read_lines
from ragstone.testing.chat import FakeChatModel
from ragstone.types import Query
from shared_data import SHARED

pytestmark = pytest.mark.anyio
CASES = SHARED / "cases"


def rows(name: str) -> list[dict[str, Any]]:
    path = CASES / name
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []


@pytest.mark.parametrize("row", rows("query_expansion.jsonl"))
async def test_w02_queries_are_read_as_the_case_says(row: dict[str, Any]) -> None:
    expected = row["expected"]
    if isinstance(expected, str):
        # Told in words.
        expected = ["q1", "q2", "q3"] if "q1,q2,q3" in expected else []
    assert read_lines(row["model_output"], row["n"]) == expected
    found = await MultiQuery(FakeChatModel(row["model_output"]), row["n"])(Query("original"))
    assert [query.text for query in found] == ["original", *expected]


@pytest.mark.parametrize("row", rows("llm_json.jsonl"))
async def test_json_is_read_as_the_case_says(row: dict[str, Any]) -> None:
    if isinstance(row["expected"], str):
        assert "no JSON" in row["expected"]
        assert read_json(row["output"]) is None
    else:
        assert read_json(row["output"]) == row["expected"]
