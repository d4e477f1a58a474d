"""cases/chat_memory.jsonl: messages added to a window, and what is left."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragstone.errors import InvalidStage
from ragstone.memory import WindowMemory
from ragstone.types import Message
from shared_data import SHARED

pytestmark = pytest.mark.anyio
FILE = SHARED / "cases" / "chat_memory.jsonl"
CASES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()] if FILE.exists() else []


def said(pairs: list[list[str]]) -> list[Message]:
    return [Message(role=role, content=content) for role, content in pairs]  # type: ignore[arg-type]


@pytest.mark.parametrize("case", [case for case in CASES if "adds" in case])
async def test_a73_a_window_keeps_whole_turns(case: dict[str, Any]) -> None:
    memory = WindowMemory(max_messages=case["max_messages"])
    for messages in case["adds"]:
        await memory.add("chat", said(messages))
    assert list(await memory.messages("chat")) == said(case["expected"])


@pytest.mark.parametrize("case", [case for case in CASES if "adds" not in case])
async def test_a73_a_window_that_cannot_be_is_refused(case: dict[str, Any]) -> None:
    async def made() -> None:
        memory = WindowMemory(max_messages=case.get("max_messages", 10))
        await memory.add("chat", [None])  # type: ignore[list-item]

    with pytest.raises(InvalidStage):
        await made()
