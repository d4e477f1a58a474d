"""The application under load: search, streamed answers, and 500 documents uploaded at once.

    python benchmarks/serving.py [--documents 500] [--requests 400] [--streams 128]

Real processes on this machine: `ragstone serve`, two `ragstone worker`, PostgreSQL, Redis and S3; the
clients and a chat model with fixed delays are two more. Embeddings are the deterministic stand-in, so
that what is measured is ours. CPU of the API is what its process took, PostgreSQL's is not in it;
`library` is the same search in a process without HTTP. Writes benchmarks/results/serving.md.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import psutil

from deployment import Deployment, cluster
from provider import Provider
from wire import Reply, Wire, multipart

RESULTS = Path(__file__).parent / "results" / "serving.md"
DELAY_S, PACE_S = 0.5, 0.02
"""Of the chat model: to its first delta, and between its deltas."""
PAUSE_S = 8.0
"""Between the questions of one person, in the middle."""
PIECES = ["The ferry leaves ", "at 22:15 [1]. ", *(f"word{n} " for n in range(18)), "End."]
CLIENTS = (1, 8, 32)
UPLOADERS = 8
SUBJECTS = ("ferry", "harbour", "lantern", "orchard", "turbine", "glacier", "archive", "market")
PLACES = ("渡轮码头", "灯塔", "果园", "档案馆", "集市", "Halm", "Orrin", "Selby")


# --- what is asked -------------------------------------------------------------------


def text_of(number: int) -> bytes:
    """About 300 words, other ones in each document."""
    chance = random.Random(number)
    lines = [f"# Report {number} on the {chance.choice(SUBJECTS)} of {chance.choice(PLACES)}\n"]
    for _ in range(25):
        first, second, place = chance.choice(SUBJECTS), chance.choice(SUBJECTS), chance.choice(PLACES)
        lines.append(
            f"The {first} near {place} was checked {chance.randint(2, 90)} times, "
            f"and the {second} needs {chance.randint(100, 999)} parts."
        )
    return "\n".join(lines).encode()


def question(number: int) -> str:
    chance = random.Random(number)
    return f"How many parts does the {chance.choice(SUBJECTS)} near {chance.choice(PLACES)} need?"


# --- measuring -----------------------------------------------------------------------


def share(values: Sequence[float], part: float) -> float:
    """The value that `part` of all do not pass."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


@dataclass
class Spent:
    """CPU and memory of processes and their children while something ran."""

    processes: dict[str, psutil.Process]
    cpu_s: dict[str, float] = field(default_factory=dict[str, float])
    first_mb: dict[str, float] = field(default_factory=dict[str, float])
    peak_mb: dict[str, float] = field(default_factory=dict[str, float])
    last_mb: dict[str, float] = field(default_factory=dict[str, float])

    def resident(self) -> dict[str, float]:
        return {
            name: _sum(process, lambda one: one.memory_info().rss / 1e6)
            for name, process in self.processes.items()
        }

    def cpu(self) -> dict[str, float]:
        # Those of children that have ended count too.
        return {
            name: _sum(process, lambda one: sum(one.cpu_times()[:4]))
            for name, process in self.processes.items()
        }

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[None]:
        before, self.first_mb = self.cpu(), self.resident()
        self.peak_mb = dict(self.first_mb)

        async def look() -> None:
            while True:
                for name, mb in self.resident().items():
                    self.peak_mb[name] = max(self.peak_mb[name], mb)
                await asyncio.sleep(0.25)

        looking = asyncio.create_task(look())
        try:
            yield
        finally:
            looking.cancel()
            self.last_mb = self.resident()
            self.cpu_s = {name: after - before[name] for name, after in self.cpu().items()}


def _sum(process: psutil.Process, of: Callable[[psutil.Process], float]) -> float:
    total = 0.0
    for one in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += of(one)
    return total


def processes_of(deployed: Deployment) -> Spent:
    assert deployed.postgres is not None
    pids = {name: running.pid for name, running in deployed.running.items()}
    pids["PostgreSQL"] = deployed.postgres.pid
    return Spent({name: psutil.Process(pid) for name, pid in pids.items()})


async def by_clients(
    count: int, number: int, act: Callable[[Wire, int], Awaitable[None]], url: str, key: str
):
    """`number` acts shared by `count` connections."""
    numbers = iter(range(number))

    async def client() -> None:
        async with Wire(url, key=key) as wire:
            for taken in numbers:
                await act(wire, taken)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(client())


def good(reply: Reply, *statuses: int) -> Reply:
    assert reply.status in (statuses or (200,)), f"{reply.status}: {reply.body[:500]!r}"
    return reply


# --- the three loads -----------------------------------------------------------------


@dataclass(kw_only=True)
class Uploads:
    documents: int
    ready: int
    twice: int
    uploaded_s: float
    ready_s: float
    upload_ms: list[float]
    meanwhile_ms: list[float]
    spent: Spent


async def uploads(deployed: Deployment, base_id: str, count: int) -> Uploads:
    """All documents by 8 clients at once, while another searches and lists."""
    upload_ms: list[float] = []
    meanwhile_ms: list[float] = []
    path = f"/api/bases/{base_id}/documents"
    finished = asyncio.Event()

    async def upload(wire: Wire, number: int) -> None:
        body, media_type = multipart([(f"report-{number}.md", text_of(number))])
        reply = good(await wire.call("POST", path, data=body, media_type=media_type), 202)
        upload_ms.append(reply.total_s * 1_000)

    async def meanwhile() -> None:
        async with Wire(deployed.url, key=deployed.key) as wire:
            number = 0
            while not finished.is_set():
                number += 1
                search = {"query": question(number), "bases": [base_id]}
                found = good(await wire.call("POST", "/api/search", search))
                listed = good(await wire.call("GET", f"{path}?limit=50"))
                meanwhile_ms.extend(reply.total_s * 1_000 for reply in (found, listed))
                await asyncio.sleep(0.1)

    spent = processes_of(deployed)
    async with spent.watched(), asyncio.TaskGroup() as tasks:
        tasks.create_task(meanwhile())
        began = time.perf_counter()
        await by_clients(UPLOADERS, count, upload, deployed.url, deployed.key)
        uploaded_s = time.perf_counter() - began
        items = await settled(deployed, path)
        ready_s = time.perf_counter() - began
        finished.set()
    names = [item["name"] for item in items]
    return Uploads(
        documents=len(items),
        ready=sum(item["status"] == "ready" for item in items),
        twice=len(names) - len(set(names)),
        uploaded_s=uploaded_s,
        ready_s=ready_s,
        upload_ms=upload_ms,
        meanwhile_ms=meanwhile_ms,
        spent=spent,
    )


async def settled(deployed: Deployment, path: str) -> list[dict]:
    """All documents, once none waits; TimeoutError after ten minutes."""
    async with asyncio.timeout(600), Wire(deployed.url, key=deployed.key) as wire:
        while True:
            waiting = 0
            for status in ("pending", "processing"):
                waiting += good(await wire.call("GET", f"{path}?status={status}&limit=1")).json["total"]
            if not waiting:
                break
            await asyncio.sleep(0.25)
        items: list[dict] = []
        while page := good(await wire.call("GET", f"{path}?limit=200&offset={len(items)}")).json["items"]:
            items += page
        return items


@dataclass(kw_only=True)
class Searches:
    clients: int
    ms: list[float]
    cpu_ms: float
    database_ms: float
    per_s: float


async def searches(deployed: Deployment, base_id: str, clients: int, count: int) -> Searches:
    ms: list[float] = []

    async def search(wire: Wire, number: int) -> None:
        body = {"query": question(number), "bases": [base_id]}
        reply = good(await wire.call("POST", "/api/search", body))
        ms.append(reply.total_s * 1_000)

    await by_clients(clients, clients * 4, search, deployed.url, deployed.key)  # connections are made
    ms.clear()
    spent = processes_of(deployed)
    began = time.perf_counter()
    async with spent.watched():
        await by_clients(clients, count, search, deployed.url, deployed.key)
    seconds = time.perf_counter() - began
    cpu_ms = {name: seconds / count * 1_000 for name, seconds in spent.cpu_s.items()}
    return Searches(
        clients=clients,
        ms=ms,
        cpu_ms=cpu_ms["api"],
        database_ms=cpu_ms["PostgreSQL"],
        per_s=count / seconds,
    )


async def library(deployed: Deployment, base_id: str, count: int) -> float:
    """CPU ms of one search without HTTP, in this process."""
    from ragstone.kb.bootstrap import App
    from ragstone.kb.settings import load
    from ragstone.types import Query, Scope

    names = {f"RAGSTONE_{name.upper()}": value for name, value in deployed.settings.items()}
    app = App(load(names | {"RAGSTONE_HOME": str(deployed.home), "RAGSTONE_TEST_EMBEDDER": "fake"}))
    try:
        pipeline = await app.search("hybrid", app.settings.top_k, None)

        async def search(number: int) -> None:
            query = Query(question(number), scope=Scope(bases=(base_id,)))
            assert (await pipeline.search(query)).hits

        for number in range(20):
            await search(number)
        began = time.process_time()
        for number in range(count):
            await search(number)
        return (time.process_time() - began) / count * 1_000
    finally:
        await app.aclose()


@dataclass(kw_only=True)
class Streams:
    """`pause_s`: how long each client waits between its questions, on average."""

    clients: int
    pause_s: float
    opened_ms: list[float]
    first_event_ms: list[float]
    first_token_ms: list[float]
    cpu_ms: float


async def streams(
    deployed: Deployment, base_id: str, clients: int, count: int, *, pause_s: float = 0.0
) -> Streams:
    found = Streams(
        clients=clients, pause_s=pause_s, opened_ms=[], first_event_ms=[], first_token_ms=[], cpu_ms=0
    )

    async def ask(wire: Wire, number: int) -> None:
        if pause_s:
            await asyncio.sleep(random.expovariate(1 / pause_s))
        began, seen, text = time.perf_counter(), 0, ""
        body = {"question": question(number), "bases": [base_id]}
        async with aclosing(wire.events("/api/ask/stream", body)) as events:
            async for event in events:
                since = (event.at - began) * 1_000
                if event.name == "opened":
                    assert event.data == 200
                    found.opened_ms.append(since)
                    continue
                seen += 1
                if seen == 1:
                    assert event.name == "stage"
                    found.first_event_ms.append(since)
                if event.name == "delta" and event.data["text"]:
                    if not text:
                        found.first_token_ms.append(since)
                    text += event.data["text"]
        assert event.name == "done", event
        assert text.strip() == "".join(PIECES).strip(), text

    await by_clients(clients, clients, ask, deployed.url, deployed.key)
    for values in (found.opened_ms, found.first_event_ms, found.first_token_ms):
        values.clear()
    spent = processes_of(deployed)
    async with spent.watched():
        await by_clients(clients, count, ask, deployed.url, deployed.key)
    found.cpu_ms = spent.cpu_s["api"] / count * 1_000
    return found


# --- the chat model, in a process of its own -----------------------------------------


def _model(pipe: Connection) -> None:
    async def serve() -> None:
        async with Provider(chat=lambda body: PIECES, delay=DELAY_S, pace=PACE_S) as provider:
            pipe.send(provider.url)
            await asyncio.to_thread(pipe.recv)

    asyncio.run(serve())


@contextmanager
def model() -> Iterator[str]:
    """The address of a chat model with fixed delays."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_model, args=(theirs,))
    process.start()
    try:
        yield f"{ours.recv()}/v1"
    finally:
        ours.send("stop")
        process.join(30)


# --- the table -----------------------------------------------------------------------


@dataclass(kw_only=True)
class Measured:
    uploaded: Uploads
    library_ms: float
    searched: list[Searches]
    streamed: list[Streams]


async def measured(deployed: Deployment, options: argparse.Namespace) -> Measured:
    async with Wire(deployed.url, key=deployed.key) as wire:
        base_id = good(await wire.call("POST", "/api/bases", {"name": "load"}), 201).json["base_id"]
    uploaded = await uploads(deployed, base_id, options.documents)
    print(f"{uploaded.ready} ready after {uploaded.ready_s:.1f} s", flush=True)
    searched = [await searches(deployed, base_id, clients, options.requests) for clients in CLIENTS]
    library_ms = await library(deployed, base_id, options.requests)
    print("searched", flush=True)
    streamed = [
        await streams(deployed, base_id, 1, 8),
        await streams(deployed, base_id, 32, options.streams, pause_s=PAUSE_S),
        await streams(deployed, base_id, 32, options.streams),
    ]
    return Measured(uploaded=uploaded, library_ms=library_ms, searched=searched, streamed=streamed)


def report(found: Measured, options: argparse.Namespace) -> list[str]:
    up = found.uploaded
    return [
        "# The application under load",
        "",
        f"    python benchmarks/serving.py --documents {options.documents} --requests {options.requests}"
        f" --streams {options.streams}",
        "",
        f"API, two workers, PostgreSQL 16, Redis, S3, chat model and clients on {os.cpu_count()} cores "
        f"(load average {os.getloadavg()[0]:.0f}), Python {platform.python_version()}.",
        "",
        f"## {options.documents} documents uploaded at once by {UPLOADERS} clients, 2 workers",
        "",
        "| | |",
        "|---|---|",
        f"| ready; of them twice | {up.ready} of {up.documents}; {up.twice} |",
        f"| all uploaded, all ready after | {up.uploaded_s:.1f} s, {up.ready_s:.1f} s |",
        f"| an upload, p50 and p95 | {share(up.upload_ms, 0.5):.0f} ms, {share(up.upload_ms, 0.95):.0f} ms |",
        f"| searches and lists meanwhile ({len(up.meanwhile_ms)}), p50 and p95 | "
        f"{share(up.meanwhile_ms, 0.5):.0f} ms, {share(up.meanwhile_ms, 0.95):.0f} ms |",
        *(
            f"| {name}: resident MB at first, at most, at last | {up.spent.first_mb[name]:.0f}, "
            f"{up.spent.peak_mb[name]:.0f}, {up.spent.last_mb[name]:.0f} |"
            for name in up.spent.processes
            if name != "PostgreSQL"  # what its processes share would count many times
        ),
        *(f"| {name}: CPU | {seconds:.1f} s |" for name, seconds in up.spent.cpu_s.items()),
        "",
        f"## Search (`POST /api/search`, hybrid, {options.requests} requests)",
        "",
        f"A search of the library takes {found.library_ms:.1f} ms CPU.",
        "",
        "| clients | p50 ms | p95 ms | a second | CPU ms of the API | above the library | of PostgreSQL |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {row.clients} | {share(row.ms, 0.5):.1f} | {share(row.ms, 0.95):.1f} | {row.per_s:.0f} "
            f"| {row.cpu_ms:.1f} | {row.cpu_ms - found.library_ms:+.1f} | {row.database_ms:.1f} |"
            for row in found.searched
        ),
        "",
        f"## Streamed answers (`POST /api/ask/stream`); the model waits {DELAY_S * 1_000:.0f} ms",
        "",
        "| clients | pause s | answers | first event p50, p95 ms | first token p50, p95 ms "
        "| above the model's delay p50, p95 ms | CPU ms of the API |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {row.clients} | {row.pause_s:g} | {len(row.first_token_ms)} | {_pair(row.first_event_ms)} "
            f"| {_pair(row.first_token_ms)} "
            f"| {_pair([ms - DELAY_S * 1_000 for ms in row.first_token_ms])} | {row.cpu_ms:.0f} |"
            for row in found.streamed
        ),
        "",
        f"An answer has {len(PIECES)} deltas, {PACE_S * 1_000:.0f} ms apart; none was lost. "
        "Without a pause every client asks again as soon as its answer has ended.",
    ]


def _pair(values: Sequence[float]) -> str:
    return f"{share(values, 0.5):.0f}, {share(values, 0.95):.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--documents", type=int, default=500)
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--streams", type=int, default=128)
    options = parser.parse_args()
    with (
        model() as chat,
        tempfile.TemporaryDirectory(prefix="ragstone-serving-") as folder,
        cluster(Path(folder), chat_base_url=chat, chat_model="slow") as deployed,
    ):
        found = asyncio.run(measured(deployed, options))
    lines = report(found, options)
    print("\n".join(lines))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
