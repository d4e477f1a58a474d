"""What the pipelines of benchmarks/overhead.py are given: models and retrievers that answer at once."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable

HISTORY = [
    ("user", "Which pumps does the northern plant use?"),
    ("assistant", "The northern plant uses three centrifugal pumps of the series AB-1200."),
    ("user", "Who maintains them?"),
    ("assistant", "They are maintained by the mechanical workshop, twice a year."),
]
QUESTION = "And how long do their seals last?"
STANDALONE = "How long do the seals of the AB-1200 pumps at the northern plant last?"
WORDINGS = [
    "service life of AB-1200 pump seals",
    "seal replacement interval for centrifugal pumps",
    "how often are pump seals replaced at the northern plant",
]
ANSWER = (
    "The seals of the AB-1200 pumps last about four years in clean water [1]. "
    "In abrasive media they are replaced every eighteen months [2]."
)
PASSAGES = [
    f"Passage {number}. The mechanical seals of pump AB-12{number:02} last about four years in clean water. "
    "In abrasive media, such as slurry from the northern quarry, they are replaced every eighteen months. "
    "The workshop keeps two spare sets of each size, and notes every exchange in the maintenance book."
    for number in range(40)
]
FOUND, KEPT, WORDINGS_SEARCHED = 10, 5, 4
ROUNDS, QUERIES = 7, 40


def places(retriever: int, text: str) -> range:
    """Which passages one of the two retrievers finds: those of different wordings overlap."""
    start = retriever * 5 + len(text) % 4 * 4
    return range(start, start + FOUND)


def reply(prompt: str) -> str:
    """What the chat model says: it knows the stages by words of their prompts."""
    if QUESTION in prompt and "Passage" not in prompt:
        return STANDALONE
    return ANSWER if "Passage" in prompt else "\n".join(WORDINGS)


def score(number: int) -> float:
    return 1.0 - number / 100


async def _measured(ask: Callable[[], Awaitable[object]], parts: Callable[[], Awaitable[object]]) -> None:
    text = str(await ask())
    if "eighteen months" not in text:
        raise SystemExit(f"not the answer: {text}")
    spent: dict[str, float] = {}
    for name, call in (("whole", ask), ("parts", parts)):
        rounds: list[float] = []
        for _ in range(ROUNDS):
            started = time.process_time()
            for _ in range(QUERIES):
                await call()
            rounds.append((time.process_time() - started) / QUERIES * 1000)
        # The least: what is above it is the machine's, not the pipeline's.
        spent[name] = min(rounds)
    print(json.dumps(spent))


def main(ask: Callable[[], Awaitable[object]], parts: Callable[[], Awaitable[object]]) -> None:
    """CPU milliseconds of one query, and of its models and retrievers called by themselves."""
    if len(sys.argv) > 1:
        asyncio.run(_measured(ask, parts))
