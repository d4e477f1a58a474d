"""Generations in PostgreSQL: built beside the one that answers, swapped whole, deleted with documents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import LiteralString

import anyio
import pytest

from ragstone.errors import ModelMismatch, NotFound, StoreError, StoreUnavailable
from ragstone.evaluate import Dataset, Question
from ragstone.kb.golden import Golden
from ragstone.kb.reindex import Rebuild
from ragstone.postgres.pool import Database
from ragstone.protocols import Splitter
from ragstone.retrieve.store import StoreRetriever
from ragstone.split import RecursiveSplitter
from ragstone.store import deletion
from ragstone.store.generations import Generation
from ragstone.store.memory import MemoryStore
from ragstone.store.postgres import PostgresStore
from ragstone.testing import FakeEmbedder
from ragstone.testing.store_contract.concurrency import _whole
from ragstone.testing.store_contract.passages import X, halves, passages, put, vectors
from ragstone.trace import Trace
from ragstone.types import Chunk, Document, Query, Scope

pytestmark = pytest.mark.anyio

BASE = "one"
SCOPE = Scope(bases=(BASE,))
A, B = FakeEmbedder(dimension=32, identity="fake/a"), FakeEmbedder(dimension=48, identity="fake/b")


@pytest.fixture
async def database(conninfo: str) -> AsyncIterator[Database]:
    async with await Database.open(conninfo) as database:
        yield database


@pytest.fixture
async def store(database: Database) -> PostgresStore:
    return await PostgresStore.open(database)


def lines(document: Document) -> list[Chunk]:
    """A chunk a line."""
    found, start = [], 0
    for index, text in enumerate(document.text.split("\n")):
        found.append(
            Chunk(
                text=text,
                document_id=document.document_id,
                index=index,
                start=start,
                end=start + len(text),
                metadata=document.metadata,
            )
        )
        start += len(text) + 1
    return found


def rebuild(
    store: PostgresStore, embedder: FakeEmbedder, settings: str = "lines", split: Splitter = lines
) -> Rebuild:
    return Rebuild(store=store, split=split, embedder=embedder, settings=settings)


async def add(store: PostgresStore, uri: str, text: str, *, embedder: FakeEmbedder = A, **more: str) -> bool:
    document = Document(text=text, uri=uri, base_id=BASE, **more)
    chunks = lines(document)
    values = await embedder.embed_documents([chunk.embedding_text for chunk in chunks])
    return await store.replace(document, chunks, values)


async def fill(store: PostgresStore, count: int = 5) -> None:
    await store.generations.bind(BASE, A.identity, A.dimension, settings="lines")
    for n in range(count):
        await add(store, f"u:{n}", f"shared passage {n}\nshared word{n}")


async def found(store: PostgresStore, embedder: FakeEmbedder, text: str = "shared", top_k: int = 100) -> list:
    question = await embedder.embed_queries([text])
    nearest, matching = await halves(store, text, question, scope=SCOPE, top_k=top_k)
    assert {hit.chunk.chunk_id for hit in matching} <= {hit.chunk.chunk_id for hit in nearest}
    return nearest


@dataclass
class Stopped(Exception):
    """Stands for a build that is cut short."""


async def states(store: PostgresStore) -> list[tuple[str, str, int]]:
    return [(item.model, item.state, item.documents) for item in await store.generations.of_base(BASE)]


async def test_the_base_changes_its_model_and_back(store: PostgresStore) -> None:
    """D1, A31, C20, W08: the new vectors are complete before the old ones stop answering."""
    await fill(store)
    before = await found(store, A)
    with pytest.raises(ModelMismatch):
        await found(store, B)
    result = await rebuild(store, B).run(BASE)
    assert (result.swapped, result.generation.model, result.embedded) == (True, B.identity, 10)
    assert len(await found(store, B)) == 10
    assert await store.count(SCOPE) == 10
    with pytest.raises(ModelMismatch):
        await found(store, A)
    # What an answer has just cited can still be read.
    cited = [hit.chunk.chunk_id for hit in before]
    assert len(await store.fetch(cited)) == len(cited)
    assert len(await store.neighbours(cited[0], 1)) == 2
    assert await states(store) == [(A.identity, "retired", 5), (B.identity, "active", 5)]
    back = await rebuild(store, B).roll_back(BASE)
    assert (back.generation.model, back.embedded) == (A.identity, 0)
    assert [hit.chunk for hit in await found(store, A)] == [hit.chunk for hit in before]
    forth = await rebuild(store, B).run(BASE)
    assert (forth.generation.generation_id, forth.embedded) == (result.generation.generation_id, 0)


async def test_what_is_as_the_settings_say_is_not_built_again(store: PostgresStore) -> None:
    await fill(store)
    assert not (await rebuild(store, A).run(BASE)).swapped
    await store.generations.bind(BASE, A.identity, A.dimension, settings="other")
    assert (await rebuild(store, A).run(BASE)).swapped


async def test_an_equal_model_embeds_only_what_is_new(store: PostgresStore) -> None:
    """A splitter that changes half of the chunks costs half of the embeddings."""
    await fill(store, 3)

    def halves(document: Document) -> list[Chunk]:
        return lines(document)[:1]

    result = await rebuild(store, A, "halves", halves).run(BASE)
    assert (result.embedded, result.reused) == (0, 3)
    assert await store.count(SCOPE) == 3


async def test_totals_and_frequencies_see_only_what_answers(store: PostgresStore) -> None:
    """A second generation of the same texts does not move a text score."""
    await fill(store)
    scores = [hit.score for hit in await store.search_text("passage word3", scope=SCOPE, top_k=20)]
    everywhere = [hit.score for hit in await store.search_text("passage word3", scope=Scope(), top_k=20)]
    await rebuild(store, B).run(BASE)
    again = [hit.score for hit in await store.search_text("passage word3", scope=SCOPE, top_k=20)]
    assert again == pytest.approx(scores)
    assert everywhere == pytest.approx(scores)


async def test_a_bad_splitter_is_refused_and_the_old_generation_answers(store: PostgresStore) -> None:
    """D1, C20: a check that finds the new generation worse refuses the swap."""
    await fill(store)

    def first_letters(document: Document) -> list[Chunk]:
        return [Chunk(text=document.text[:1], document_id=document.document_id, index=0, start=0, end=1)]

    async def golden(before: Generation, after: Generation) -> str | None:
        recalls = []
        for generation, embedder in ((before, A), (after, B)):
            view = store.of_generation(generation.generation_id)
            hits = await found(view, embedder, "shared word3", 1)
            recalls.append(hits[0].uri == "u:3" and "word3" in hits[0].chunk.text)
        return None if recalls[1] >= recalls[0] else f"{recalls[0]:d} -> {recalls[1]:d}"

    with pytest.raises(StoreError) as caught:
        await rebuild(store, B, "bad", first_letters).run(BASE, check=golden)
    assert caught.value.key == "kb.swap_refused"
    assert len(await found(store, A)) == 10
    assert await states(store) == [(A.identity, "active", 5), (B.identity, "building", 5)]
    # The good one passes, and the refused one is collected.
    await rebuild(store, B, "good").run(BASE, check=golden)
    assert await states(store) == [(A.identity, "retired", 5), (B.identity, "active", 5)]


@pytest.mark.parametrize("embedder", [A, B])
async def test_a_golden_set_refuses_by_recall(store: PostgresStore, embedder: FakeEmbedder) -> None:
    """C47: D1: recall@10 of the new generation against the old; of another model that is by words."""
    await fill(store, 20)
    questions = tuple(Question(query_id=f"q{n}", text=f"shared word{n}") for n in range(20))
    relevant = {f"q{n}": {f"u:{n}": 1} for n in range(20)}
    dataset = Dataset(passages=(), questions=questions, relevant=relevant)
    golden = Golden(store, embedder, dataset)

    def first_letters(document: Document) -> list[Chunk]:
        return [Chunk(text=document.text[:1], document_id=document.document_id, index=0, start=0, end=1)]

    with pytest.raises(StoreError) as caught:
        await rebuild(store, embedder, "bad", first_letters).run(BASE, check=golden)
    assert "recall@10 1.000 -> 0." in str(caught.value)
    assert (await rebuild(store, embedder, "good").run(BASE, check=golden)).swapped


async def test_what_was_stopped_goes_on_where_it_was(store: PostgresStore) -> None:
    """C4: a build that was cut short is continued, not begun anew."""
    await fill(store, 8)

    def stop_at_five(document: Document) -> list[Chunk]:
        if document.uri == "u:5":
            raise Stopped
        return lines(document)

    with pytest.raises(Stopped):
        await rebuild(store, B, "s", stop_at_five).run(BASE)
    ((_, _, whole), (_, state, built)) = await states(store)
    assert (whole, state) == (8, "building")
    assert built < 8
    assert len(await found(store, A)) == 16
    result = await rebuild(store, B, "s").run(BASE)
    assert result.embedded == 16 - 2 * built
    assert len(await found(store, B)) == 16


async def test_documents_that_change_meanwhile_are_caught_up(store: PostgresStore) -> None:
    await fill(store)
    changed = False

    async def change(before: Generation, after: Generation) -> str | None:
        nonlocal changed
        changed = True
        await add(store, "u:1", "shared changed", revision="r2")
        await add(store, "u:new", "shared new")
        await store.delete([Document(text="", uri="u:2", base_id=BASE).document_id])
        return None

    await rebuild(store, B).run(BASE, check=change)
    assert changed
    texts = {hit.chunk.text for hit in await found(store, B)}
    assert {"shared changed", "shared new"} <= texts
    assert not texts & {"shared passage 1", "shared passage 2"}
    await add(store, "u:0", "shared later", embedder=B, revision="r2")
    # The old one lacks what changed since, and cannot be completed with another model.
    with pytest.raises(ModelMismatch):
        await rebuild(store, B).roll_back(BASE)
    await rebuild(store, A).roll_back(BASE)
    assert "shared later" in {hit.chunk.text for hit in await found(store, A)}


async def test_a_document_without_chunks_comes_along(store: PostgresStore) -> None:
    await fill(store, 1)
    empty = Document(text="", uri="u:empty", base_id=BASE, document_id="given")
    await store.replace(empty, [], await A.embed_documents([]))
    splitter = RecursiveSplitter(max_size=50)
    await rebuild(store, B, "r", splitter).run(BASE)
    assert await store.document("given") == empty
    assert await states(store) == [(A.identity, "retired", 2), (B.identity, "active", 2)]


async def test_only_one_process_builds(store: PostgresStore, conninfo: str) -> None:
    await fill(store, 1)
    async with await Database.open(conninfo) as other, store.generations.alone(BASE):
        with pytest.raises(StoreUnavailable) as caught:
            await rebuild(await PostgresStore.open(other), B).run(BASE)
    assert caught.value.key == "store.generation_busy"
    assert (await rebuild(store, B).run(BASE)).swapped


async def test_a_generation_is_built_with_a_pool_of_one_connection(conninfo: str) -> None:
    """What keeps others from building is held beside the pool: builds never wait for each other's."""
    async with await Database.open(conninfo, max_size=1, wait=2) as database:
        store = await PostgresStore.open(database)
        await fill(store, 2)
        assert (await rebuild(store, B).run(BASE)).swapped
        async with store.generations.alone(BASE), store.generations.alone("other"):
            assert len(await found(store, B)) == 4


async def test_a_disabled_passage_stays_so_in_a_new_generation(store: PostgresStore) -> None:
    await fill(store, 2)
    gone = next(hit.chunk for hit in await found(store, A) if hit.chunk.text == "shared word1")
    assert await store.set_enabled([gone.chunk_id], False) == 1
    await rebuild(store, B).run(BASE)
    assert [hit.chunk.text for hit in await found(store, B)].count("shared word1") == 0
    assert len(await found(store, B)) == 3
    # In the one that answered before too, so that the way back changes nothing.
    (shown,) = await store.fetch([gone.chunk_id])
    beside = next(hit.chunk for hit in await found(store, B) if hit.chunk.text == "shared passage 1")
    _, new = await store.neighbours(beside.chunk_id, 1)
    assert (shown.chunk.enabled, new.chunk.enabled) == (False, False)
    await store.set_enabled([new.chunk.chunk_id], True)
    await rebuild(store, B).roll_back(BASE)
    assert len(await found(store, A)) == 4


async def test_a_generation_takes_vectors_of_its_own_model_only(store: PostgresStore) -> None:
    await fill(store, 1)
    async with store.generations.alone(BASE):
        building = await store.generations.begin(BASE, B.identity, B.dimension, settings="lines")
    (missing,) = await store.generations.missing(building.generation_id)
    document = await store.document(missing.document_id)
    assert document is not None
    chunks = lines(document)
    values = await A.embed_documents([chunk.embedding_text for chunk in chunks])
    with pytest.raises(ModelMismatch):
        await store.generations.write(building, document, chunks, values)
    assert [item.chunks for item in await store.generations.of_base(BASE)] == [2, 0]


async def test_collecting_leaves_what_answers(store: PostgresStore) -> None:
    await fill(store)
    await rebuild(store, B).run(BASE)
    assert await store.generations.collect(BASE, states=("building", "retired")) == 1
    assert await states(store) == [(B.identity, "active", 5)]
    with pytest.raises(NotFound):
        await rebuild(store, B).roll_back(BASE)
    with pytest.raises(StoreError):
        await store.generations.collect(BASE, states=("active",))
    assert len(await found(store, B)) == 10


async def test_a_base_that_holds_nothing_has_nothing_to_build(store: PostgresStore) -> None:
    with pytest.raises(NotFound):
        await rebuild(store, A).run(BASE)


URIS, VERSIONS = ("u:a", "u:b", "u:c"), 6


async def version(store: PostgresStore, uri: str, number: int) -> None:
    texts = [f"shared version {number} line {n}" for n in range(3 + number % 4)]
    document, chunks = passages(uri, *texts, revision=f"r{number}", metadata={"version": number})
    await store.replace(document, chunks, await A.embed_documents(texts))


async def write_versions(store: PostgresStore, start: int) -> None:
    for number in range(1, VERSIONS):
        for step in range(len(URIS)):
            await version(store, URIS[(start + step) % len(URIS)], number)


async def test_readers_and_writers_see_whole_documents_through_a_swap(store: PostgresStore) -> None:
    """D1, C4, W08: four writers and four readers during builds and swaps; no search is empty."""
    await store.generations.bind(BASE, A.identity, A.dimension, settings="0")
    for uri in URIS:
        await version(store, uri, 0)
    done = anyio.Event()
    searches: list[int] = []

    async def read() -> None:
        while not done.is_set():
            question = await A.embed_queries(["shared"])
            for hits in await halves(store, "shared", question, scope=SCOPE, top_k=100):
                assert set(_whole(hits)) == set(URIS)
            searches.append(1)

    async def change() -> None:
        async with anyio.create_task_group() as writers:
            for start in range(4):
                writers.start_soon(write_versions, store, start)
            for number in range(1, 4):
                await rebuild(store, A, str(number)).run(BASE)
        done.set()

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(change)
            for _ in range(4):
                tasks.start_soon(read)
    assert searches
    assert _whole(await found(store, A)) == dict.fromkeys(URIS, VERSIONS - 1)
    assert [state for _, state, _ in await states(store)] == ["retired", "active"]


async def test_ten_thousand_chunks_change_their_model_while_searches_go_on(store: PostgresStore) -> None:
    """D1, C20: no search fails or comes back empty, whichever model it asks with."""
    await store.generations.bind(BASE, A.identity, A.dimension, settings="lines")
    for n in range(50):
        await add(store, f"u:{n}", "\n".join(f"shared {n} {line}" for line in range(200)))
    done = anyio.Event()
    asked: dict[str, int] = {}

    async def ask(embedder: FakeEmbedder) -> None:
        retrieve = StoreRetriever(store=store, embedder=embedder, top_k=5, scope=SCOPE)
        while not done.is_set():
            trace = Trace()
            with trace.stage("retrieve"):
                assert len(await retrieve(Query("shared 7 7"))) == 5
            key = embedder.identity + "".join(trace.degraded)
            asked[key] = asked.get(key, 0) + 1

    with anyio.fail_after(180):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, A)
            tasks.start_soon(ask, B)
            await rebuild(store, B).run(BASE)
            after = dict(asked)
            while asked.get(B.identity, 0) <= after.get(B.identity, 0):
                await anyio.wait_all_tasks_blocked()
            done.set()
    assert asked.keys() >= {A.identity, B.identity, B.identity + "other_model"}
    assert await store.count(SCOPE) == 10_000


@pytest.mark.parametrize("kind", ["memory", "postgres"])
async def test_a_search_of_all_bases_that_passes_one_over_says_so(store: PostgresStore, kind: str) -> None:
    """C20: bases of another model are found by words only, and the result is marked."""
    kept = store if kind == "postgres" else MemoryStore()
    await put(kept, "u:1", "alpha", base_id="one")
    await put(kept, "u:2", "alpha", base_id="two", rows=[(1.0, 0.0)], model="other")
    trace = Trace()
    with trace.stage("retrieve"):
        nearest, matching = await halves(kept, "alpha", vectors(X), scope=Scope(), top_k=5)
    assert (len(nearest), len(matching), trace.degraded) == (1, 2, ["other_model"])
    trace = Trace()
    with trace.stage("retrieve"):
        await halves(kept, "alpha", vectors(X), scope=Scope(bases=("one",)), top_k=5)
    assert trace.degraded == []


# --- deletion ------------------------------------------------------------------------


async def test_a_deletion_is_complete_in_every_generation_and_can_be_proved_again(
    store: PostgresStore, database: Database
) -> None:
    """D7, C2, C7: rows of every table and generation go; a record of ids lets the proof be repeated."""
    await fill(store)
    await rebuild(store, B).run(BASE)
    document_id = Document(text="", uri="u:1", base_id=BASE).document_id
    report = await store.delete([document_id])
    expected = {"documents": 1, "generation_documents": 2, "chunks": 4, "vectors": 4}
    assert dict(report.rows) == expected
    proof = await store.proof_of_deletion(document_id)
    assert (proof.complete, dict(proof.deleted)) == (True, expected)
    assert set(proof.left) == {table for table, _ in deletion.HOLDING}
    with pytest.raises(NotFound):
        await store.proof_of_deletion(Document(text="", uri="u:2", base_id=BASE).document_id)
    # The record holds no word of the text.
    async with database.connection() as connection:
        row = await (await connection.execute("SELECT deletions::text FROM deletions")).fetchone()
    assert row is not None
    assert "shared" not in row[0]
    await add(store, "u:1", "shared again", embedder=B)
    proof = await store.proof_of_deletion(document_id)
    assert (proof.complete, proof.left["chunks"], proof.left["documents"]) == (False, 1, 1)


async def test_a_row_that_was_left_behind_is_named(store: PostgresStore, database: Database) -> None:
    """D7: the proof looks by the ids of chunks too, where a table knows no document."""
    await fill(store, 1)
    document_id = Document(text="", uri="u:0", base_id=BASE).document_id
    async with database.connection() as connection:
        await connection.execute("CREATE TABLE kept AS SELECT * FROM vectors")
    await store.delete([document_id])
    async with database.connection() as connection:
        await connection.execute("ALTER TABLE vectors DROP CONSTRAINT vectors_chunk_id_fkey")
        await connection.execute("INSERT INTO vectors SELECT * FROM kept")
    proof = await store.proof_of_deletion(document_id)
    assert {table for table, rows in proof.left.items() if rows} == {"vectors"}


async def test_every_table_that_names_a_document_or_a_chunk_is_counted(
    store: PostgresStore, database: Database
) -> None:
    """D7: a table added later must be in the list, or be known to hold ids alone."""
    del store
    async with database.connection() as connection:
        sql: LiteralString = (
            "SELECT DISTINCT table_name FROM information_schema.columns"
            " WHERE table_schema = 'public' AND column_name IN ('document_id', 'chunk_id')"
        )
        tables = {row[0] for row in await (await connection.execute(sql)).fetchall()}
    assert tables == {table for table, _ in deletion.HOLDING} | set(deletion.WITHOUT_CONTENT)
