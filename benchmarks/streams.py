"""Two hundred streamed answers at once: CPU of one answer, and what memory does over the rounds.

    python benchmarks/streams.py [--rounds N] [--at-once N]

A provider in a thread of its own streams every answer in 13 deltas over HTTP. `sdk` reads them
with the openai SDK alone, `ragstone` with an `Assistant`: history, retrieval of one passage,
prompt, answer, citations, memory. CPU is that of the whole process, the provider's included.
Writes benchmarks/results/streams.md.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from openai import AsyncOpenAI

from provider import Provider, threaded
from ragstone import Assistant, CitedContext, Hit, ModelGenerator, Query, QueryPipeline, WindowMemory
from ragstone.chat.openai import OpenAIChatModel
from ragstone.types import Chunk, Done

RESULTS = Path(__file__).parent / "results" / "streams.md"
PASSAGE = "The ferry leaves Halm at 22:15. Dogs travel free of charge."
PIECES = ["The ferry leaves ", "at 22:15 [1]. ", *(f"word {n} " for n in range(10)), "End."]


async def found(query: Query) -> list[Hit]:
    chunk = Chunk(text=PASSAGE, document_id="d", index=0, start=0, end=len(PASSAGE))
    return [Hit(chunk=chunk, uri="file:///ferry", title="Ferry")]


def sdk(client: AsyncOpenAI) -> Callable[[int], Awaitable[str]]:
    async def answer(number: int) -> str:
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "When?"}], stream=True
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    return answer


def ragstone(talking: Assistant) -> Callable[[int], Awaitable[str]]:
    async def answer(number: int) -> str:
        text = ""
        async with aclosing(talking.stream("When does it leave?", chat_id=str(number))) as events:
            async for event in events:
                if isinstance(event, Done):
                    text = event.answer.text
        return text

    return answer


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def measured(
    answer: Callable[[int], Awaitable[str]], provider: Provider, rounds: int, at_once: int
) -> list[tuple[float, float, int]]:
    """(CPU ms an answer, resident MB afterwards, Python objects afterwards) of each round."""
    rows: list[tuple[float, float, int]] = []

    async def checked(number: int) -> None:
        assert (await answer(number)).strip() == "".join(PIECES).strip()

    for _ in range(rounds):
        started = time.process_time()
        async with anyio.create_task_group() as tasks:
            for number in range(at_once):
                tasks.start_soon(checked, number)
        spent = time.process_time() - started
        provider.requests.clear()  # what it keeps of each would look like ours
        gc.collect()
        rows.append((spent / at_once * 1_000, resident_mb(), len(gc.get_objects())))
    return rows


async def compared(
    provider: Provider, rounds: int, at_once: int
) -> dict[str, list[tuple[float, float, int]]]:
    url = f"{provider.url}/v1"
    client = AsyncOpenAI(base_url=url, api_key="k", timeout=120)
    chat = OpenAIChatModel(base_url=url, model="m", api_key="k", timeout=120)
    talking = Assistant(
        pipeline=QueryPipeline(retrievers=[found], augment=CitedContext(), generate=ModelGenerator(chat)),
        memory=WindowMemory(),
    )
    try:
        return {
            "sdk": await measured(sdk(client), provider, max(2, rounds // 5), at_once),
            "ragstone": await measured(ragstone(talking), provider, rounds, at_once),
        }
    finally:
        await client.close()
        await chat.aclose()


def report(found: dict[str, list[tuple[float, float, int]]], at_once: int, rounds: int) -> list[str]:
    least = {name: min(row[0] for row in rows) for name, rows in found.items()}
    lines = [
        "# Streamed answers",
        "",
        f"    python benchmarks/streams.py --rounds {rounds} --at-once {at_once}",
        "",
        f"{at_once} answers at once of {len(PIECES)} deltas; {os.cpu_count()} cores, "
        f"load average {os.getloadavg()[0]:.0f}, "
        f"Python {platform.python_version()}. No delta was lost or crossed.",
        "",
        "| | CPU ms an answer, best round | ratio |",
        "|---|---|---|",
        *(f"| {name} | {value:.1f} | {value / least['sdk']:.2f} |" for name, value in least.items()),
        "",
        "| round | resident MB | Python objects |",
        "|---|---|---|",
    ]
    for number, (_, resident, objects) in enumerate(found["ragstone"], 1):
        lines.append(f"| {number} | {resident:.0f} | {objects:,} |")
    return [*lines, "", "Each chat's memory of 10 messages is full after round 5."]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--at-once", type=int, default=200)
    options = parser.parse_args()
    answers: dict[str, Any] = {"chat": lambda body: PIECES}
    with threaded(**answers) as provider:
        found = anyio.run(compared, provider, options.rounds, options.at_once)
    lines = report(found, options.at_once, options.rounds)
    print("\n".join(lines))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
