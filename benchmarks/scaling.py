"""How search and ingest grow with the number of chunks: 1,000, 10,000, 100,000.

    python benchmarks/scaling.py [--sizes N...] [--questions N] [--home FOLDER] [--index]

The real PostgreSQL store, filled document by document with made-up Chinese and English text:
words by Zipf's law, topics with words of their own. Vectors of 384 dimensions lie in clusters
as those of real models do, so that nothing is embedded. Milliseconds are CPU of this process
and of its server process together, by the operating system's count, for whole searches from
the question's text and vector to the hits; recall@10 is against an exact scan of the same half
precision in numpy. Ingest is measured at each size, with the last 1,000 chunks taken out and
stored again, and with documents of one chunk. Writes benchmarks/results/scaling.md and .svg
unless some sizes only were measured. With a folder the databases stay there, one a size, and what
they hold already is not stored again; `--index` builds the index anew, with the time it takes.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import numpy as np
import psutil
from numpy.typing import NDArray

from ragstone.filters import Equal
from ragstone.postgres.pool import Database
from ragstone.postgres.server import EmbeddedServer
from ragstone.retrieve.store import COMPARED, StoreRetriever
from ragstone.store.postgres import PostgresStore
from ragstone.terms import STOP_WORDS
from ragstone.types import DEFAULT_BASE, Chunk, Document, Hit, Query, Scope, Vectors

RESULTS = Path(__file__).parent / "results"
SIZES = (1_000, 10_000, 100_000)
DIMENSION = 384
TOPICS = 400
PER_DOCUMENT = 20
TOKENS = 180
"""Of a passage; 8.6 KB of signs, of which multilingual-e5-small has 7.7 to 9.6 KB a chunk of real text."""
QUESTION_TOKENS = 12
TOP_K = 10
AGAIN = 1_000
EXACT = 8
"""Questions whose hybrid result is compared with one that leaves nothing out: seconds each."""
MODEL = "clustered/384"
EVERYTHING = Scope()


class Corpus:
    """Chunk n, its text and its vector: the same on every machine."""

    def __init__(self, size: int) -> None:
        self.size = size
        rng = np.random.default_rng(11)
        self._english = [*sorted(STOP_WORDS)[:60], *_words(rng, 40_000)]
        self._chinese = _han_words(rng, 30_000)
        self._topic_words = rng.integers(300, 20_000, size=(TOPICS, 60))
        self._centres = _unit(rng.normal(size=(TOPICS, DIMENSION)))
        self._common = _unit(rng.normal(size=(1, DIMENSION)))
        # What varies inside a topic: a few directions, as in the vectors of real models.
        self._directions = _unit(rng.normal(size=(48, DIMENSION)))
        parts = [self._vectors(first, min(1_000, size - first)) for first in range(0, size, 1_000)]
        # As the store keeps them: what is lost to half precision is no fault of the search.
        self.vectors = np.concatenate(parts).astype(np.float16).astype(np.float32)

    def _vectors(self, first: int, count: int) -> NDArray[np.float32]:
        rng = np.random.default_rng(1_000_003 + first)
        topics = self._topics(first, count)
        inner = rng.normal(size=(count, len(self._directions))) @ self._directions
        noise = rng.normal(size=(count, DIMENSION)) / np.sqrt(DIMENSION)
        values = 1.6 * self._common + self._centres[topics] + 0.09 * inner + 0.25 * noise
        return _unit(values).astype(np.float32)

    @staticmethod
    def _topics(first: int, count: int) -> NDArray[np.int64]:
        # A document keeps to one topic.
        documents = np.arange(first, first + count) // PER_DOCUMENT
        return (documents * 7_919) % TOPICS

    def text(self, n: int) -> str:
        rng = np.random.default_rng(n)
        topic = int(self._topics(n, 1)[0])
        english = n // PER_DOCUMENT % 2 == 0
        words, count = (self._english, 190) if english else (self._chinese, 175)
        ranks = _zipf(rng, count, len(words))
        own = rng.random(count) < 0.12
        ranks[own] = self._topic_words[topic][rng.integers(0, 60, size=int(own.sum()))]
        picked = [words[rank] for rank in ranks]
        size = 14 if english else 7
        sentences = [picked[at : at + size] for at in range(0, count, size)]
        if english:
            return ". ".join(" ".join(sentence) for sentence in sentences) + "."
        return "".join("".join(sentence) + "。" for sentence in sentences)

    def document(self, start: int, last: int) -> tuple[Document, list[Chunk], Vectors]:
        """Chunks `start` to `start + PER_DOCUMENT`, or to `last`."""
        numbers = range(start, min(start + PER_DOCUMENT, last))
        texts = [self.text(n) for n in numbers]
        document = Document(text="\n".join(texts), uri=uri(start), title=f"Document {start}")
        chunks: list[Chunk] = []
        at = 0
        for index, (n, text) in enumerate(zip(numbers, texts, strict=True)):
            chunks.append(
                Chunk(
                    text=text,
                    document_id=document.document_id,
                    index=index,
                    start=at,
                    end=at + len(text),
                    chunk_id=f"{n:08d}",
                    context=document.title,
                    metadata={"percent": n * 7_919 % 100, "tenth": n * 7_919 % 10, "number": n},
                )
            )
            at += len(text) + 1
        rng = np.random.default_rng(2_000_003 + start)
        signs = rng.integers(0, 256, size=(len(texts), TOKENS, DIMENSION // 8), dtype=np.uint8)
        values = self.vectors[start : start + len(texts)]
        return document, chunks, Vectors(model=MODEL, values=values, token_vectors=list(signs))

    def questions(self, count: int, size: int) -> list[tuple[str, Vectors]]:
        """Ten words of one chunk (fourteen characters of a Chinese one), and a vector near it."""
        rng = np.random.default_rng(5)
        asked: list[tuple[str, Vectors]] = []
        for n in rng.integers(0, size, size=count):
            text = self.text(int(n))
            if " " in text:
                words = text.split()
                at = int(rng.integers(0, len(words) - 10))
                question = " ".join(words[at : at + 10])
            else:
                at = int(rng.integers(0, len(text) - 14))
                question = text[at : at + 14]
            noise = rng.normal(size=DIMENSION) / np.sqrt(DIMENSION)
            vector = _unit((self.vectors[n] + 0.35 * noise)[None])
            tokens = _unit(rng.normal(size=(QUESTION_TOKENS, DIMENSION))).astype(np.float32)
            asked.append(
                (question, Vectors(model=MODEL, values=vector.astype(np.float32), token_vectors=[tokens]))
            )
        return asked


def uri(start: int) -> str:
    return f"made:{start:08d}"


def _unit(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def _zipf(rng: np.random.Generator, count: int, most: int) -> NDArray[np.int64]:
    """Ranks from 0 with probability about 1 / (rank + 1)."""
    return np.minimum(np.exp(rng.random(count) * np.log(most + 1)).astype(np.int64) - 1, most - 1)


def _words(rng: np.random.Generator, count: int) -> list[str]:
    syllables = [a + b for a in "bcdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er", "ol", "in")]
    lengths = rng.integers(2, 5, size=count)
    return ["".join(syllables[i] for i in rng.integers(0, len(syllables), size=n)) for n in lengths]


def _han_words(rng: np.random.Generator, count: int) -> list[str]:
    ranks = _zipf(rng, 2 * count, 3_500)
    characters = rng.permutation(np.arange(0x4E00, 0x4E00 + 8_000))
    return [
        "".join(chr(characters[rank]) for rank in ranks[2 * n : 2 * n + (1 if n % 5 == 0 else 2)])
        for n in range(count)
    ]


@dataclass
class Search:
    """One way to search: CPU and wall milliseconds of each question, recall@10."""

    cpu_ms: float
    wall_ms: list[float]
    recall: float | None = None

    def wall(self, percent: int) -> float:
        return float(np.percentile(self.wall_ms, percent))


@dataclass
class Point:
    """What was measured with so many chunks."""

    chunks: int
    ingest_ms: float = 0.0
    single_ms: float = 0.0
    index_s: float | None = None
    disk_kb: float = 0.0
    memory_mb: float = 0.0
    searches: dict[str, Search] = field(default_factory=dict[str, "Search"])


class Bench:
    """A store on a server of its own with one connection, whose process is watched."""

    def __init__(self, database: Database, store: PostgresStore, server: psutil.Process) -> None:
        self.database = database
        self.store = store
        self.server = server

    def cpu(self) -> float:
        times = self.server.cpu_times()
        return times.user + times.system + time.process_time()

    async def fill(self, corpus: Corpus, size: int) -> None:
        stored = await self.store.revisions(DEFAULT_BASE)
        for start in range(0, size, PER_DOCUMENT):
            if uri(start) not in stored:
                await self.store.replace(*corpus.document(start, size))
        await self.vacuum()

    async def vacuum(self) -> None:
        """What autovacuum does within a minute."""
        async with self.database.connection() as connection:
            await connection.set_autocommit(True)
            await connection.execute("VACUUM ANALYZE")
            await connection.set_autocommit(False)

    async def ingest(self, corpus: Corpus, point: Point) -> None:
        """CPU of the last chunks stored anew, and of documents of one chunk."""
        last = range(max(0, point.chunks - AGAIN), point.chunks, PER_DOCUMENT)
        again = [corpus.document(start, point.chunks) for start in last]
        await self.store.delete([document.document_id for document, _, _ in again])
        singles = [single(*document) for document in again]
        point.single_ms = await self._stored(singles)
        await self.store.delete([document.document_id for document, _, _ in singles])
        point.ingest_ms = await self._stored(again)
        await self.vacuum()

    async def _stored(self, documents: Sequence[tuple[Document, list[Chunk], Vectors]]) -> float:
        for document in documents[:10]:  # statements are prepared by then
            await self.store.replace(*document)
        cpu = self.cpu()
        for document in documents[10:]:
            await self.store.replace(*document)
        return (self.cpu() - cpu) * 1_000 / sum(len(chunks) for _, chunks, _ in documents[10:])

    async def sizes(self, point: Point) -> None:
        async with self.database.connection() as connection:
            row = await (
                await connection.execute(
                    "SELECT sum(pg_total_relation_size(oid))::float8 FROM pg_class"
                    " WHERE relname IN ('documents', 'chunks', 'vectors')"
                )
            ).fetchone()
        assert row is not None
        point.disk_kb = row[0] / 1_024 / point.chunks
        point.memory_mb = psutil.Process().memory_full_info().uss / 2**20
        point.memory_mb += self.server.memory_full_info().pss / 2**20

    async def reindex(self) -> float | None:
        """Seconds of CPU to build the index, without parallel workers."""
        async with self.database.connection() as connection:
            row = await (await connection.execute("SELECT to_regclass('vectors_hnsw_1')")).fetchone()
            if row is None or row[0] is None:
                return None
            cpu = self.cpu()
            await connection.execute("SET maintenance_work_mem = '256MB'")
            await connection.execute("SET max_parallel_maintenance_workers = 0")
            await connection.execute("REINDEX INDEX vectors_hnsw_1")
            await connection.execute("RESET max_parallel_maintenance_workers")
            await connection.execute("RESET maintenance_work_mem")
            return self.cpu() - cpu

    async def measure(
        self,
        search: Callable[[str, Vectors], Awaitable[Sequence[str]]],
        asked: Sequence[tuple[str, Vectors]],
        exact: Sequence[frozenset[str]] | None = None,
    ) -> Search:
        # Every page it reads is in memory then, for the bare query, which comes first, as for the others.
        for text, vectors in asked:
            await search(text, vectors)
        wall: list[float] = []
        shares: list[float] = []
        cpu = self.cpu()
        for place, (text, vectors) in enumerate(asked):
            started = time.perf_counter()
            found = await search(text, vectors)
            wall.append((time.perf_counter() - started) * 1_000)
            if exact is not None and place < len(exact):
                shares.append(len(exact[place] & set(found)) / len(exact[place]))
        cpu = (self.cpu() - cpu) * 1_000 / len(asked)
        return Search(cpu, wall, statistics.fmean(shares) if shares else None)


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.chunk.chunk_id for hit in hits[:TOP_K]]


def nearest(
    corpus: Corpus, asked: Sequence[tuple[str, Vectors]], rows: NDArray[np.intp]
) -> list[frozenset[str]]:
    found: list[frozenset[str]] = []
    for _, vectors in asked:
        # The store compares in half precision, the question too.
        cosines = corpus.vectors[rows] @ vectors.values[0].astype(np.float16).astype(np.float32)
        found.append(frozenset(f"{n:08d}" for n in rows[np.argsort(-cosines)[:TOP_K]]))
    return found


@dataclass
class Known:
    """An embedder of a question whose vector is known."""

    vectors: Vectors
    identity: str = MODEL
    dimension: int = DIMENSION

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self.vectors


def single(
    document: Document, chunks: Sequence[Chunk], vectors: Vectors
) -> tuple[Document, list[Chunk], Vectors]:
    """The first chunk of a document as a document of its own."""
    (text, *_) = (chunk.text for chunk in chunks)
    alone = Document(text=text, uri=f"{document.uri}:single", title=document.title)
    chunk = replace(chunks[0], document_id=alone.document_id, chunk_id=f"{chunks[0].chunk_id}:single")
    return (
        alone,
        [chunk],
        replace(vectors, values=vectors.values[:1], token_vectors=vectors.token_vectors[:1]),
    )


async def measure(bench: Bench, corpus: Corpus, point: Point, questions: int) -> None:
    asked = corpus.questions(questions, point.chunks)
    store, every = bench.store, np.arange(point.chunks)
    # Nothing approximate: every vector scanned, every row of every word ranked.
    scanning = PostgresStore(bench.database, exact_rows=10**8)

    async def bare(text: str, vectors: Vectors) -> Sequence[str]:
        vector = "[" + ",".join(map(str, vectors.values[0])) + "]"
        async with bench.database.connection() as connection:
            rows = await connection.execute(
                "SELECT chunk_id FROM vectors WHERE model_id = 1"
                " ORDER BY embedding::halfvec(384) <=> %s::halfvec(384) LIMIT 10",
                [vector],
            )
            return [row[0] for row in await rows.fetchall()]

    async def vector(text: str, vectors: Vectors) -> Sequence[str]:
        return ids(await store.search_vector(vectors, scope=EVERYTHING, top_k=TOP_K))

    async def words(text: str, vectors: Vectors) -> Sequence[str]:
        return ids(await store.search_text(text, scope=EVERYTHING, top_k=TOP_K))

    def both(searched: PostgresStore, compared: int) -> Callable[[str, Vectors], Awaitable[Sequence[str]]]:
        async def search(text: str, vectors: Vectors) -> Sequence[str]:
            retriever = StoreRetriever(store=searched, embedder=Known(vectors), compared=compared)
            return ids(await retriever(Query(text)))

        return search

    def filtered(scope: Scope) -> Callable[[str, Vectors], Awaitable[Sequence[str]]]:
        async def search(text: str, vectors: Vectors) -> Sequence[str]:
            return ids(await store.search_vector(vectors, scope=scope, top_k=TOP_K))

        return search

    exact = [frozenset(await both(scanning, 0)(text, vectors)) for text, vectors in asked[:EXACT]]
    async with bench.database.connection() as connection:
        await connection.execute("SELECT set_config('hnsw.ef_search', '120', false)")
        await connection.execute("SELECT set_config('hnsw.iterative_scan', 'strict_order', false)")
    all_nearest = nearest(corpus, asked, every)
    point.searches["bare pgvector"] = await bench.measure(bare, asked, all_nearest)
    point.searches["vector"] = await bench.measure(vector, asked, all_nearest)
    point.searches["text"] = await bench.measure(words, asked)
    point.searches["hybrid"] = await bench.measure(both(store, 0), asked, exact)
    point.searches["hybrid, tokens compared"] = await bench.measure(both(store, COMPARED), asked)
    for name, key, value, share in (
        ("vector, 1% filter", "percent", 7, 100),
        ("vector, 10%", "tenth", 3, 10),
    ):
        rows = every[every * 7_919 % share == value]
        scope = Scope(filter=Equal(key, value))
        point.searches[name] = await bench.measure(filtered(scope), asked, nearest(corpus, asked, rows))


def report(points: Sequence[Point], command: str) -> list[str]:
    lines = [
        "# Scaling",
        "",
        f"    {command}",
        "",
        f"{os.cpu_count()} cores, Python {platform.python_version()}, embedded PostgreSQL with its 128 MB of "
        f"shared memory, vectors of {DIMENSION} dimensions in {TOPICS} clusters, passages of some 190 "
        "English words or 320 Chinese characters, one connection. CPU is this process and its server "
        "process. Both depend on what else runs: the load average was "
        f"{os.getloadavg()[0]:.0f} at the end. Compare ratios.",
        "",
        "| chunks | ingest CPU ms a chunk | alone in its document | index build CPU s | disk KB a chunk "
        "| memory MB |",
        "|---|---|---|---|---|---|",
    ]
    for point in points:
        built = "" if point.index_s is None else f"{point.index_s:.1f}"
        lines.append(
            f"| {point.chunks:,} | {point.ingest_ms:.2f} | {point.single_ms:.2f} | {built} "
            f"| {point.disk_kb:.1f} | {point.memory_mb:.0f} |"
        )
    lines += ["", "| chunks | search | CPU ms | p50 ms | p95 ms | recall@10 |", "|---|---|---|---|---|---|"]
    for point in points:
        for name, search in point.searches.items():
            recall = "" if search.recall is None else f"{search.recall:.3f}"
            lines.append(
                f"| {point.chunks:,} | {name} | {search.cpu_ms:.1f} | {search.wall(50):.1f} "
                f"| {search.wall(95):.1f} | {recall} |"
            )
    last = points[-1].searches
    bare = last["bare pgvector"].cpu_ms
    plain, compared = (last[name].cpu_ms / bare for name in ("hybrid", "hybrid, tokens compared"))
    return [
        *lines,
        "",
        f"At {points[-1].chunks:,} chunks a hybrid search of 100 candidates a side takes {plain:.1f} "
        f"times the CPU of the bare pgvector query for {TOP_K} ids, and {compared:.1f} times with the "
        f"tokens of the {COMPARED} best compared. A passage has {TOKENS} tokens, a question "
        f"{QUESTION_TOKENS}; disk includes the {TOKENS * DIMENSION // 8 / 1024:.1f} KB of their signs. "
        "Recall of vectors is against numpy in the same half precision, of hybrid against a search with "
        f"nothing left out, on {EXACT} questions.",
    ]


def picture(points: Sequence[Point]) -> str:
    """CPU milliseconds over chunks, both logarithmic."""
    names = {"bare pgvector": "#888888", "vector": "#2563eb", "text": "#d97706", "hybrid": "#16a34a"}
    values = [point.searches[name].cpu_ms for point in points for name in names]
    low, high = np.floor(np.log10(min(values))), np.ceil(np.log10(max(values)))
    least, most = np.log10(points[0].chunks), np.log10(points[-1].chunks)

    def place(chunks: float, cpu_ms: float) -> tuple[float, float]:
        x = 70 + 420 * (np.log10(chunks) - least) / max(most - least, 1)
        return float(x), float(270 - 230 * (np.log10(cpu_ms) - low) / max(high - low, 1))

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 320" font-family="sans-serif"',
        ' font-size="13">',
        '<rect width="640" height="320" fill="white"/>',
        '<text x="70" y="22">CPU milliseconds a search, by chunks</text>',
    ]
    for exponent in range(int(low), int(high) + 1):
        _, y = place(points[0].chunks, 10.0**exponent)
        parts.append(f'<line x1="70" y1="{y:.0f}" x2="490" y2="{y:.0f}" stroke="#dddddd"/>')
        parts.append(f'<text x="60" y="{y + 4:.0f}" text-anchor="end">{10.0**exponent:g}</text>')
    for point in points:
        x, _ = place(point.chunks, 1)
        parts.append(f'<text x="{x:.0f}" y="295" text-anchor="middle">{point.chunks:,}</text>')
    for name, colour in names.items():
        dots = [place(point.chunks, point.searches[name].cpu_ms) for point in points]
        line = " ".join(f"{x:.0f},{y:.0f}" for x, y in dots)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x, y = dots[-1]
        parts.append(f'<text x="{x + 8:.0f}" y="{y + 4:.0f}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


async def measured(home: Path, corpus: Corpus, size: int, questions: int, *, index: bool) -> Point:
    point = Point(size)
    async with (
        await EmbeddedServer.start(home) as server,
        await Database.open(server.ensure_running, max_size=1) as database,
    ):
        store = await PostgresStore.open(database)
        async with database.connection() as connection:
            bench = Bench(database, store, psutil.Process(connection.info.backend_pid))
        await bench.fill(corpus, size)
        await bench.ingest(corpus, point)
        await bench.sizes(point)
        point.index_s = await bench.reindex() if index else None
        # What was known of a smaller collection is a minute old.
        bench.store = PostgresStore(database)
        await measure(bench, corpus, point, questions)
    return point


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=None)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--home", type=Path, help="keep the databases here, a folder a size")
    parser.add_argument("--index", action="store_true", help="build the index anew, and say how long it took")
    options = parser.parse_args()
    sizes = sorted(options.sizes or SIZES)
    corpus, points = Corpus(sizes[-1]), list[Point]()
    with tempfile.TemporaryDirectory(prefix="ragstone-scaling-") as made:
        for size in sizes:
            home = (options.home or Path(made)) / str(size)
            home.mkdir(parents=True, exist_ok=True)
            points.append(await measured(home, corpus, size, options.questions, index=options.index))
            print("\n".join(report(points, "")[6:]), flush=True)
    if options.sizes is None:
        lines = report(points, "python benchmarks/scaling.py")
        (RESULTS / "scaling.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (RESULTS / "scaling.svg").write_text(picture(points), encoding="utf-8")


if __name__ == "__main__":
    anyio.run(main)
