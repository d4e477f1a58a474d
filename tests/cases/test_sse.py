"""cases/sse.jsonl: what the chat adapter reads, for every cut of the bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragstone.chat.sse import EventReader
from shared_data import SHARED

FILE = SHARED / "cases" / "sse.jsonl"
CASES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()] if FILE.exists() else []


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("cut", [1, 2, 7, 10_000])
def test_events_are_the_same_whatever_the_cut(case: dict[str, Any], cut: int):
    stream = case["stream"].encode() if "stream" in case else bytes.fromhex(case["stream_utf8_hex"])
    reader = EventReader()
    events = [event for at in range(0, len(stream), cut) for event in reader.feed(stream[at : at + cut])]
    events += reader.finish()
    assert [{"event": event.event, "data": event.data} for event in events] == case["expected"]
