"""A PostgreSQL store with a vector index beneath it answers as one without (rows A27, C2, C33, D10, W29)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import anyio
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ragstone.errors import InvalidStage, StoreUnavailable
from ragstone.filters import And, Compare, Equal, Filter, In, Not, Or, Present
from ragstone.kb.reindex import Rebuild
from ragstone.postgres.pool import Database
from ragstone.protocols import Store, VectorIndex
from ragstone.store.generations import Generation
from ragstone.store.index.milvus import MilvusIndex
from ragstone.store.outbox import Outbox
from ragstone.store.postgres import PostgresStore
from ragstone.testing import FakeEmbedder
from ragstone.testing.databases import temporary_database
from ragstone.testing.store_contract.concurrency import ConcurrencyContract
from ragstone.testing.store_contract.enabling import EnablingContract
from ragstone.testing.store_contract.passages import EVERYTHING, X, Y, passages, put, texts, vectors
from ragstone.testing.store_contract.search import SearchContract
from ragstone.testing.vector_index import MemoryVectorIndex
from ragstone.trace import Trace
from ragstone.types import Chunk, Document, Scope

pytestmark = pytest.mark.anyio

MODEL = "contract/3"


@pytest.fixture(scope="module")
def conninfo(embedded_database: str) -> Iterator[str]:
    with temporary_database(embedded_database) as conninfo:
        yield conninfo


@pytest.fixture
async def database(conninfo: str) -> AsyncIterator[Database]:
    async with await Database.open(conninfo) as database:
        await PostgresStore.open(database)
        async with database.connection() as connection:
            await connection.execute("TRUNCATE bases, indexes CASCADE")
            await connection.execute("DELETE FROM models")
        yield database


async def through(database: Database, index: VectorIndex) -> PostgresStore:
    """A store that asks the index for every scope, however small."""
    return await PostgresStore.open(database, exact_rows=0, index=index)


class Breakable(MemoryVectorIndex):
    """An index that can be switched off, and says how it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.down = self.keeps = False
        self.asked: list[tuple[Sequence[str] | None, int]] = []
        self.after_put: anyio.Event | None = None

    async def put(
        self, collection: str, ids: Sequence[str], vectors: NDArray[np.float32], *, bases: Sequence[str]
    ) -> None:
        self._check()
        await super().put(collection, ids, vectors, bases=bases)
        if self.after_put is not None:
            self.after_put.set()
            await anyio.sleep_forever()

    async def drop(self, collection: str, ids: Sequence[str]) -> None:
        self._check()
        await super().drop(collection, ids)

    async def clear(self, collection: str) -> None:
        if self.keeps:
            raise StoreUnavailable("store.index_failed", index=self.identity, reason="nothing is removed")
        await super().clear(collection)

    async def search(
        self, collection: str, vector: NDArray[np.float32], *, bases: Sequence[str] | None, top_k: int
    ) -> list[str]:
        self._check()
        self.asked.append((bases, top_k))
        return await super().search(collection, vector, bases=bases, top_k=top_k)

    def _check(self) -> None:
        if self.down:
            raise StoreUnavailable("store.index_failed", index=self.identity, reason="switched off")


class TestStoreWithMilvus(SearchContract, EnablingContract, ConcurrencyContract):
    """What a store must do that is searched, with milvus-lite beneath; nothing else is written otherwise."""

    @pytest.fixture(scope="class")
    @classmethod
    def milvus(cls, milvus_file: Path) -> str:
        return str(milvus_file)

    @pytest.fixture
    async def store(self, database: Database, milvus: str) -> AsyncIterator[Store]:
        index = await MilvusIndex.open(milvus)
        yield await through(database, index)
        await index.aclose()


async def held(database: Database, index: MemoryVectorIndex) -> set[str]:
    """The ids in the ready copy of an index."""
    async with database.connection() as connection:
        cursor = await connection.execute("SELECT prefix FROM indexes WHERE state = 'ready'")
        row = await cursor.fetchone()
    assert row is not None
    return {item for name, ids in index.held().items() if name.startswith(row[0]) for item in ids}


async def in_database(database: Database) -> set[str]:
    async with database.connection() as connection:
        return {row[0] for row in await (await connection.execute("SELECT chunk_id FROM vectors")).fetchall()}


async def test_every_way_that_vectors_change_reaches_the_index(database: Database) -> None:
    """C2: what is deleted leaves the index too, also when it goes by a cascade of the database."""
    index = MemoryVectorIndex()
    store = await through(database, index)
    first = await put(store, "u:1", "alpha", "beta")
    second = await put(store, "u:2", "gamma")
    await put(store, "u:3", "delta")
    assert await held(database, index) == await in_database(database) != set()
    await put(store, "u:1", "alpha", "changed", revision="r2")
    assert await held(database, index) == await in_database(database)
    await store.delete([second.document_id])
    assert await held(database, index) == await in_database(database)
    async with database.connection() as connection:
        await connection.execute("DELETE FROM documents WHERE document_id = %s", [first.document_id])
        await connection.execute("UPDATE vectors SET embedding = '[0,1,0]'")
    assert await Outbox(database, index).waiting() == 3
    await Outbox(database, index).drain()
    assert await held(database, index) == await in_database(database)
    assert len(await in_database(database)) == 1
    assert await Outbox(database, index).drain() == 0


async def test_what_another_process_wrote_without_an_index_is_found_at_once(database: Database) -> None:
    index = Breakable()
    store = await through(database, index)
    await put(store, "u:1", "alpha")
    await put(await PostgresStore.open(database), "u:2", "beta", "gamma")
    assert len(await held(database, index)) == 1
    found = await store.search_vector(vectors(X), scope=EVERYTHING, top_k=3)
    assert sorted(texts(found)) == ["alpha", "beta", "gamma"]
    # Also where the index has enough to offer without it.
    await put(await PostgresStore.open(database), "u:3", "nearest", rows=[Y])
    assert texts(await store.search_vector(vectors(Y), scope=EVERYTHING, top_k=1)) == ["nearest"]
    assert index.asked


async def test_the_index_is_never_believed(database: Database) -> None:
    """D10, C2: ids of deleted, foreign and refused chunks that an index gives are not found."""
    index = MemoryVectorIndex()
    store = await through(database, index)
    await put(store, "u:1", "mine", base_id="one", metadata={"kind": "a"})
    await put(store, "u:2", "theirs", base_id="two")
    await put(store, "u:3", "refused", base_id="one", metadata={"kind": "b"})
    (collection,) = index.held()
    ids = list(index.held()[collection])
    # An index that has all under one base, and ids that were never stored.
    await index.put(collection, [*ids, "ghost"], vectors(*[X] * 4).values, bases=["one"] * 4)
    scope = Scope(bases=("one",), filter=Equal("kind", "a"))
    assert texts(await store.search_vector(vectors(X), scope=scope, top_k=9)) == ["mine"]


async def test_an_index_that_is_down_costs_a_mark_and_nothing_else(database: Database) -> None:
    index = Breakable()
    store = await through(database, index)
    await put(store, "u:1", "alpha")
    index.down = True
    trace = Trace()
    with trace.stage("retrieve"):
        assert texts(await store.search_vector(vectors(X), scope=EVERYTHING, top_k=3)) == ["alpha"]
    assert trace.degraded == ["index_failed"]
    document = await put(store, "u:2", "beta")
    await store.delete([document.document_id])
    await put(store, "u:3", "gamma")
    index.down = False
    # Another store has not seen it fail; it tells what was left.
    other = await through(database, index)
    trace = Trace()
    with trace.stage("retrieve"):
        found = await other.search_vector(vectors(X), scope=EVERYTHING, top_k=3)
    assert sorted(texts(found)) == ["alpha", "gamma"]
    assert trace.degraded == []
    await put(other, "u:4", "delta")
    assert await held(database, index) == await in_database(database)


async def test_a_crash_after_the_index_took_it_loses_nothing(database: Database) -> None:
    index = Breakable()
    store = await through(database, index)
    index.after_put = anyio.Event()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(put, store, "u:1", "alpha")
            await index.after_put.wait()
            tasks.cancel_scope.cancel()  # the transaction that would have noted it is rolled back
    index.after_put = None
    outbox = Outbox(database, index)
    assert await outbox.waiting() == 1
    assert texts(await store.search_vector(vectors(X), scope=EVERYTHING, top_k=3)) == ["alpha"]
    assert await outbox.drain() == 1
    assert await held(database, index) == await in_database(database)


async def test_many_writers_and_drains_at_once_leave_index_and_database_equal(database: Database) -> None:
    index = MemoryVectorIndex()
    stores = [await through(database, index) for _ in range(3)]

    async def write(store: PostgresStore, number: int) -> None:
        for version in range(6):
            lines = [f"{version} {n}" for n in range(2 + version % 3)]
            document, chunks = passages(f"u:{(number + version) % 4}", *lines, revision=f"{number} {version}")
            await store.replace(document, chunks, vectors(*[X] * len(lines)))
            if version == 3:
                await store.delete([document.document_id])

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            for number, store in enumerate(stores):
                tasks.start_soon(write, store, number)
                tasks.start_soon(Outbox(database, index, batch=2).drain)
    await Outbox(database, index).drain(wait=True)
    assert await held(database, index) == await in_database(database) != set()


# --- generations and deletion -----------------------------------------------------------


def lines(document: Document) -> list[Chunk]:
    """The whole text as one chunk."""
    text = document.text
    return [Chunk(text=text, document_id=document.document_id, index=0, start=0, end=len(text))]


@pytest.mark.parametrize("model", ["fake/a", "fake/b"])
async def test_a_swap_changes_at_once_what_is_found_through_the_index(database: Database, model: str) -> None:
    """D1, A29: generations that do not answer are in the index too, and are never found."""
    index = Breakable()
    store = await through(database, index)
    before, after = FakeEmbedder(dimension=32, identity="fake/a"), FakeEmbedder(dimension=32, identity=model)
    await store.generations.bind("one", before.identity, 32, settings="old")
    for n in range(6):
        document = Document(text=f"shared passage {n}", uri=f"u:{n}", base_id="one")
        values = await before.embed_documents([document.text])
        assert await store.replace(document, lines(document), values)
    scope = Scope(bases=("one",))

    async def found(embedder: FakeEmbedder) -> set[str]:
        await age(database)
        index.asked.clear()
        question = await embedder.embed_queries(["shared passage"])
        hits = await store.search_vector(question, scope=scope, top_k=6)
        assert index.asked
        return {hit.chunk.chunk_id for hit in hits}

    async def of_generation(state: str) -> set[str]:
        async with database.connection() as connection:
            cursor = await connection.execute(
                "SELECT chunk_id FROM vectors JOIN generations USING (generation_id) WHERE state = %s",
                [state],
            )
            return {row[0] for row in await cursor.fetchall()}

    old = await found(before)
    seen: list[set[str]] = []

    async def check(now: Generation, then: Generation) -> None:
        # Built and in the index, but not answering yet.
        assert await held(database, index) == await in_database(database)
        assert (now.chunks, then.chunks, len(await in_database(database))) == (6, 6, 12)
        seen.append(await found(before))

    rebuild = Rebuild(store=store, split=lines, embedder=after, settings="new")
    assert (await rebuild.run("one", check=check)).swapped
    assert seen == [old]
    new = await found(after)
    assert new == await of_generation("active")
    assert len(new) == 6
    assert not new & old
    await rebuild.roll_back("one")
    assert await found(before) == old
    async with store.generations.alone("one"):
        await store.generations.collect("one", states=("retired",))
    await store.tell_index()
    assert await held(database, index) == await in_database(database) == old


async def test_a_deletion_is_proved_only_when_the_index_was_told(database: Database) -> None:
    """D7, C2: an index that could not be reached may still hold the vectors, so the proof fails."""
    index = Breakable()
    store = await through(database, index)
    document = await put(store, "u:1", "alpha", "beta")
    index.down = True
    await store.delete([document.document_id])
    proof = await store.proof_of_deletion(document.document_id)
    assert (proof.untold, set(proof.left.values()), proof.complete) == (2, {0}, False)
    index.down = False
    await Outbox(database, index).drain()
    assert await held(database, index) == set()
    proof = await store.proof_of_deletion(document.document_id)
    assert (proof.untold, proof.complete) == (0, True)


async def test_an_index_that_finds_nothing_hides_no_base(database: Database) -> None:
    """C33: bases of another model are no error where PostgreSQL finds some of this one."""
    index = Breakable()
    store = await through(database, index)
    await put(store, "u:1", "alpha")
    await put(store, "u:2", "other", base_id="two", model="other/3")
    await age(database)
    for collection in list(index.held()):
        await index.clear(collection)
    assert texts(await store.search_vector(vectors(X), scope=EVERYTHING, top_k=5)) == ["alpha"]
    assert index.asked


# --- filters ---------------------------------------------------------------------------

_KEYS = st.sampled_from(["kind", "n", "missing"])
_VALUES = st.sampled_from(["a", "b", 1, 2, 3.5, True])
_LEAVES = st.one_of(
    st.builds(Equal, _KEYS, _VALUES),
    st.builds(In, _KEYS, st.lists(_VALUES, min_size=1, max_size=3).map(tuple)),
    st.builds(Compare, st.just("n"), st.sampled_from(["<", "<=", ">", ">="]), st.integers(0, 9)),
    st.builds(Present, _KEYS),
)
_FILTERS = st.recursive(
    _LEAVES, lambda inner: st.builds(And, inner, inner) | st.builds(Or, inner, inner) | st.builds(Not, inner)
)
_BASES = st.none() | st.lists(st.sampled_from(["one", "two", "three", "no"]), max_size=3).map(tuple)


async def fill(store: Store, documents: int = 60) -> None:
    random = np.random.default_rng(5)
    for n in range(documents):
        await put(
            store,
            f"u:{n}",
            f"text {n} a",
            f"text {n} b",
            rows=[list(row) for row in random.normal(size=(2, 3))],
            base_id=("one", "two", "three")[n % 3],
            metadata={"kind": "ab"[n % 2], "n": n % 10},
        )


async def age(database: Database) -> None:
    """What the index took is no longer searched in PostgreSQL beside it."""
    async with database.connection() as connection:
        await connection.execute("UPDATE outbox SET applied_at = now() - interval '1 hour'")


async def test_any_scope_finds_through_the_index_what_a_scan_finds(database: Database) -> None:
    """D10, W29, C33: any filter tree and any bases, and always as many hits as there are."""
    store = await through(database, MemoryVectorIndex())
    await fill(store)
    await age(database)
    scanning = PostgresStore(database)
    examples: list[tuple[Filter | None, tuple[str, ...] | None, list[float], int]] = []

    @settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        tree=st.none() | _FILTERS,
        bases=_BASES,
        question=st.tuples(*[st.floats(-1, 1, width=16)] * 3),
        top_k=st.sampled_from([1, 3, 10, 40, 200]),
    )
    def draw(
        tree: Filter | None, bases: tuple[str, ...] | None, question: tuple[float, ...], top_k: int
    ) -> None:
        examples.append((tree, bases, list(question), top_k))

    draw()
    for tree, bases, question, top_k in examples:
        scope = Scope(bases=bases, filter=tree)
        expected = await scanning.search_vector(vectors(question), scope=scope, top_k=top_k)
        found = await store.search_vector(vectors(question), scope=scope, top_k=top_k)
        assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], abs=1e-6)
        if top_k == 200:
            assert texts(found) == texts(expected)
        assert all(bases is None or hit.base_id in bases for hit in found)
    assert examples


async def test_a_filter_that_few_pass_widens_and_then_falls_back(database: Database) -> None:
    """W29, C33: the index is asked for more, then PostgreSQL answers; top-k is always full."""
    index = Breakable()
    store = await through(database, index)
    for n in range(8):
        await put(store, f"u:{n}", *[f"near {n} {m}" for m in range(40)], metadata={"kind": "near"})
    lines = [f"far {m}" for m in range(5)]
    await put(store, "u:far", *lines, rows=[Y] * 5, metadata={"kind": "far"})
    await age(database)
    scope = Scope(bases=("one",), filter=Equal("kind", "far"))
    assert sorted(texts(await store.search_vector(vectors(X), scope=scope, top_k=5))) == lines
    assert index.asked == [(("one",), 30), (("one",), 240)]


# --- filling ---------------------------------------------------------------------------


async def test_an_index_added_later_is_filled_while_searches_go_on(database: Database) -> None:
    """A29: the index is rebuilt from PostgreSQL, which answers until it is complete."""
    await fill(await PostgresStore.open(database), 10)
    index = Breakable()
    store = await through(database, index)
    trace = Trace()
    with trace.stage("retrieve"):
        assert len(await store.search_vector(vectors(X), scope=EVERYTHING, top_k=9)) == 9
    assert trace.degraded == ["index_incomplete"]
    assert index.asked == []
    await put(store, "u:new", "while it is incomplete")
    seen: list[tuple[int, int]] = []
    assert await store.rebuild_index(lambda done, total: seen.append((done, total))) == 21
    assert seen == [(21, 21)]
    assert await held(database, index) == await in_database(database)
    trace = Trace()
    with trace.stage("retrieve"):
        assert len(await store.search_vector(vectors(X), scope=EVERYTHING, top_k=9)) == 9
    assert trace.degraded == []
    assert index.asked


async def test_a_filling_that_was_stopped_goes_on_where_it_was(database: Database) -> None:
    await fill(await PostgresStore.open(database), 10)
    index = Breakable()
    await through(database, index)

    def stop(done: int, total: int) -> None:
        if done == 10:
            index.down = True

    with pytest.raises(StoreUnavailable):
        await Outbox(database, index, batch=5).rebuild(stop)
    index.down = False
    await (await PostgresStore.open(database)).delete([(await document_ids(database))[0]])
    seen: list[int] = []
    await Outbox(database, index, batch=5).rebuild(lambda done, total: seen.append(done))
    assert seen[0] > 10
    assert await held(database, index) == await in_database(database)


async def document_ids(database: Database) -> list[str]:
    async with database.connection() as connection:
        cursor = await connection.execute("SELECT document_id FROM documents ORDER BY document_id")
        return [row[0] for row in await cursor.fetchall()]


async def test_a_new_copy_takes_the_place_of_the_old_and_leaves_nothing_of_it(database: Database) -> None:
    index = MemoryVectorIndex()
    store = await through(database, index)
    await fill(store, 5)
    (before,) = index.held()
    index.held()[before].clear()
    await index.clear(before)  # a server that lost its data
    assert len(await store.search_vector(vectors(X), scope=EVERYTHING, top_k=20)) == 10
    await store.rebuild_index()
    (after,) = index.held()
    assert after != before
    assert await held(database, index) == await in_database(database)
    async with database.connection() as connection:
        assert await (await connection.execute("SELECT count(*) FROM indexes")).fetchone() == (1,)


async def test_a_copy_that_could_not_be_removed_is_removed_later_and_does_not_answer(
    database: Database,
) -> None:
    index = Breakable()
    store = await through(database, index)
    await fill(store, 2)
    (before,) = index.held()
    index.keeps = True
    await store.rebuild_index()
    assert before in index.held()
    index.keeps = False
    await through(database, index)
    assert before not in index.held()
    assert await held(database, index) == await in_database(database)


async def test_a_copy_that_waits_to_be_removed_is_no_copy(database: Database) -> None:
    index = MemoryVectorIndex()
    await through(database, index)
    async with database.connection() as connection:
        await connection.execute("UPDATE indexes SET state = 'retired'")
        await connection.commit()
    store = await through(database, index)
    await fill(store, 1)
    assert await held(database, index) == await in_database(database) != set()


async def test_words_are_counted_where_the_servers_statistics_are_of_other_passages(
    database: Database,
) -> None:
    """A51: a store that scans no vectors weighs words as any other."""
    store = await through(database, MemoryVectorIndex())
    earlier = [await put(store, f"e:{n}", "alpha alone") for n in range(20)]
    async with database.connection() as connection:
        await connection.execute("ANALYZE chunks")
        await connection.commit()
    await store.delete([document.document_id for document in earlier])
    await put(store, "u:1", "alpha beta", "beta gamma", "delta")
    plain = await PostgresStore.open(database)
    expected = await plain.search_text("alpha beta", scope=EVERYTHING, top_k=5)
    again = await through(database, MemoryVectorIndex())
    assert await again.search_text("alpha beta", scope=EVERYTHING, top_k=5) == expected


async def test_writers_do_not_wait_for_a_copy_that_is_forgotten(database: Database) -> None:
    store = await through(database, MemoryVectorIndex())
    await fill(store, 1)
    plain = await PostgresStore.open(database)
    async with database.connection() as connection:
        await connection.execute("UPDATE indexes SET state = 'retired'")
        await connection.commit()
        await connection.execute("DELETE FROM indexes")
        with anyio.fail_after(20):
            await put(plain, "new", "a passage")
    assert len(await in_database(database)) == await plain.count(EVERYTHING)


async def test_without_an_index_there_is_nothing_to_fill_and_nothing_in_the_outbox(
    database: Database,
) -> None:
    store = await PostgresStore.open(database)
    await put(store, "u:1", "alpha")
    with pytest.raises(InvalidStage):
        await store.rebuild_index()
    async with database.connection() as connection:
        assert await (await connection.execute("SELECT count(*) FROM outbox")).fetchone() == (0,)


async def test_the_triggers_are_off_until_there_is_an_index(embedded_database: str) -> None:
    async def states(database: Database) -> set[str]:
        sql = (
            "SELECT tgenabled::text FROM pg_trigger WHERE tgrelid = 'vectors'::regclass AND NOT tgisinternal"
        )
        async with database.connection() as connection:
            return {row[0] for row in await (await connection.execute(sql)).fetchall()}

    with temporary_database(embedded_database) as conninfo:
        async with await Database.open(conninfo) as database:
            await put(await PostgresStore.open(database), "u:1", "alpha")
            assert await states(database) == {"D"}
            await through(database, MemoryVectorIndex())
            assert await states(database) == {"O"}


async def test_a_fresh_document_is_found_though_the_server_shows_it_later(
    database: Database, milvus_url: str
) -> None:
    """A29: Milvus as it is used, with bounded staleness; the outbox covers what it does not show yet."""
    index = await MilvusIndex.open(milvus_url)
    try:
        store = await through(database, index)
        for n in range(3):
            await put(store, f"u:{n}", f"text {n}", f"more {n}", base_id=f"b{n}")
            found = await store.search_vector(vectors(X), scope=Scope(bases=(f"b{n}",)), top_k=5)
            assert texts(found) == [f"text {n}", f"more {n}"]
        await store.rebuild_index()
        assert len(await store.search_vector(vectors(X), scope=EVERYTHING, top_k=9)) == 6
    finally:
        async with database.connection() as connection:
            prefixes = await (await connection.execute("SELECT prefix FROM indexes")).fetchall()
        for (prefix,) in prefixes:
            await index.clear(f"{prefix}_1")
        await index.aclose()
