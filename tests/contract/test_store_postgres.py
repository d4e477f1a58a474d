"""What only the PostgreSQL store has: its index and plans, its schema, its transactions."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from importlib.resources import files
from typing import LiteralString, cast

import anyio
import anyio.lowlevel
import numpy as np
import psycopg
import pytest
from psycopg.errors import ForeignKeyViolation

from ragstone.errors import BaseNotFound, InvalidStage
from ragstone.filters import And, Compare, Equal, Filter, Not, Present
from ragstone.fuse import hybrid, weighted
from ragstone.postgres.migrate import migrate, prepare_server
from ragstone.postgres.pool import Connection, Database
from ragstone.store.encoding import vector_text
from ragstone.store.postgres import PostgresStore
from ragstone.store.statements import Model, View, nearest, walk_settings
from ragstone.testing.databases import temporary_database
from ragstone.testing.store_contract.passages import (
    EVERYTHING,
    MODEL,
    X,
    halves,
    one_passage,
    passages,
    put,
    texts,
    vectors,
)
from ragstone.types import Document, Scope, Score, Vectors

pytestmark = pytest.mark.anyio

EXACT_ROWS = 60
DIMENSION = 16


@pytest.fixture
async def database(conninfo: str) -> AsyncIterator[Database]:
    async with await Database.open(conninfo) as database:
        yield database


def cloud(count: int, *, seed: int = 7, dimension: int = DIMENSION) -> np.ndarray:
    values = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


async def fill(store: PostgresStore, points: np.ndarray, *, start: int = 0) -> None:
    """Documents of ten chunks, from point `start` on; chunk n is `point n`, every tenth document rare."""
    for first in range(start, len(points), 10):
        lines = [f"point {n}" for n in range(first, min(first + 10, len(points)))]
        kind = "rare" if first % 100 == 0 else "usual"
        document, chunks = passages(f"u:{first:06d}", *lines, metadata={"kind": kind, "n": first})
        rows = points[first : first + len(lines)]
        assert await store.replace(document, chunks, Vectors(model="cloud", values=rows))


async def plan(
    database: Database, scope: Scope, *, exact_rows: int = EXACT_ROWS, dimension: int = DIMENSION
) -> str:
    """How PostgreSQL runs the search, under the settings it runs with."""
    model = Model(identity="cloud", model_id=1, dimension=dimension)
    question = vector_text(cloud(1, dimension=dimension)[0])
    statement = nearest(model, View(scope=scope), question, top_k=5, exact_rows=exact_rows)
    async with database.connection() as connection:
        settings = walk_settings(5)
        await connection.execute(settings.sql, settings.values)
        # Off, a filter of 1% finds a tenth of what is there.
        cursor = await connection.execute("SHOW hnsw.iterative_scan")
        assert await cursor.fetchone() == ("strict_order",)
        sql = cast(LiteralString, "EXPLAIN (ANALYZE, FORMAT TEXT) " + statement.sql.as_string(connection))
        return "\n".join(row[0] for row in await (await connection.execute(sql, statement.values)).fetchall())


async def indexes(database: Database) -> dict[str, bool]:
    async with database.connection() as connection:
        cursor = await connection.execute(
            "SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
            " WHERE c.relname LIKE 'vectors_hnsw%'"
        )
        return dict(await cursor.fetchall())


async def test_a_model_gets_its_index_when_it_outgrows_the_exact_scan(database: Database) -> None:
    store = await PostgresStore.open(database, exact_rows=EXACT_ROWS)
    await fill(store, cloud(EXACT_ROWS))
    assert await indexes(database) == {}
    await fill(store, cloud(EXACT_ROWS + 10), start=EXACT_ROWS)
    assert await indexes(database) == {"vectors_hnsw_1": True}


WALKS = r"Index Scan using vectors_hnsw_1 .*actual time"


@pytest.mark.parametrize(
    "filter", [None, Equal("kind", "usual"), Compare("n", ">=", 0), And(Present("n"), Not(Equal("n", 1)))]
)
async def test_a_large_scope_walks_the_index_and_scans_nothing(
    database: Database, filter: Filter | None
) -> None:
    """W29: by our count of the rows, whatever the planner believes of the filter."""
    store = await PostgresStore.open(database, exact_rows=EXACT_ROWS)
    await fill(store, cloud(400))
    for scope in (Scope(filter=filter), Scope(bases=("one",), filter=filter)):
        shown = await plan(database, scope)
        assert re.search(WALKS, shown), shown
        # Beside the walk, rows are read to count them, up to the limit.
        for rows in re.findall(r"Seq Scan on vectors .*actual time=\S+ rows=(\d+)", shown):
            assert int(rows) <= EXACT_ROWS + 1, shown


@pytest.mark.parametrize("filter", [Equal("kind", "rare"), Compare("n", "<", 50), Equal("kind", "no")])
async def test_a_small_scope_is_scanned(database: Database, filter: Filter) -> None:
    """W29, D10."""
    store = await PostgresStore.open(database, exact_rows=EXACT_ROWS)
    await fill(store, cloud(400))
    shown = await plan(database, Scope(filter=filter))
    assert "vectors_hnsw_1" in shown
    assert not re.search(WALKS, shown), shown


@pytest.mark.parametrize("analyzed", [False, True])
@pytest.mark.parametrize("filter", [None, Equal("kind", "usual"), Compare("n", ">=", 0)])
async def test_a_scan_looks_at_each_vector_once_with_statistics_and_without(
    database: Database, filter: Filter | None, analyzed: bool
) -> None:
    """W29: right after many writes the planner takes hundreds of rows for a handful."""
    store = await PostgresStore.open(database)
    async with database.connection() as connection:
        for table in ("chunks", "vectors"):
            sql = cast(LiteralString, f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
            await connection.execute(sql)
    await fill(store, cloud(700, dimension=384))
    if analyzed:
        async with database.connection() as connection:
            await connection.execute("ANALYZE")
    shown = await plan(database, Scope(filter=filter), exact_rows=10_000, dimension=384)
    read = re.findall(r" on vectors .*actual time=\S+ rows=(\d+)\S* loops=(\d+)", shown)
    inside = 630 if filter == Equal("kind", "usual") else 700
    assert sum(int(rows) * int(loops) for rows, loops in read) == inside, shown
    assert "Join Filter" not in shown, shown
    if filter is not None:
        assert re.search(r"Scan (on|using) vectors_pkey .*actual time", shown), shown


@pytest.mark.parametrize("filter", [None, Equal("kind", "usual"), Equal("kind", "rare"), Equal("kind", "no")])
async def test_a_search_through_the_index_finds_what_an_exact_scan_finds(
    database: Database, filter: Filter | None
) -> None:
    """A29: HNSW over cosine under metadata filters (pgvector)."""
    points = cloud(1_200)
    indexed = await PostgresStore.open(database, exact_rows=EXACT_ROWS)
    await fill(indexed, points)
    assert await indexes(database) == {"vectors_hnsw_1": True}
    scanning = PostgresStore(database, exact_rows=100_000)
    found = wanted = 0
    for question in cloud(20, seed=8):
        asked = Vectors(model="cloud", values=question[None])
        best = await scanning.search_vector(asked, scope=Scope(filter=filter), top_k=10)
        near = await indexed.search_vector(asked, scope=Scope(filter=filter), top_k=10)
        assert len(near) == len(best)
        found += len(set(texts(near)) & set(texts(best)))
        wanted += len(best)
    assert found >= 0.97 * wanted


async def test_a_walk_that_finds_too_few_is_followed_by_a_scan(database: Database) -> None:
    """W29: the walk through HNSW may give up; the answer is full all the same."""
    store = await PostgresStore.open(database, exact_rows=EXACT_ROWS)
    await fill(store, np.concatenate([cloud(70), np.zeros((30, DIMENSION), np.float32)]))
    hits = await store.search_vector(Vectors(model="cloud", values=cloud(1)), scope=EVERYTHING, top_k=90)
    assert len(hits) == 90
    assert [hit.score for hit in hits[70:]] == [0.0] * 20


async def test_replacing_many_documents_hides_no_live_row_from_the_index(database: Database) -> None:
    store = await PostgresStore.open(database, exact_rows=EXACT_ROWS)
    points = cloud(100)
    await fill(store, points)
    async with database.connection() as connection:
        await connection.execute("ALTER TABLE vectors SET (autovacuum_enabled = off)")
    for version in range(1, 9):
        for first in range(0, 100, 10):
            lines = [f"point {n}" for n in range(first, first + 10)]
            document, chunks = passages(f"u:{first:06d}", *lines, revision=f"r{version}")
            rows = points[first : first + 10]
            await store.replace(document, chunks, Vectors(model="cloud", values=rows))
    asked = Vectors(model="cloud", values=points[:1])
    hits = await store.search_vector(asked, scope=EVERYTHING, top_k=50)
    assert texts(hits)[0] == "point 0"
    assert len(hits) == 50


async def test_what_an_interrupted_build_left_is_built_again(database: Database) -> None:
    first = await PostgresStore.open(database, exact_rows=EXACT_ROWS)
    await fill(first, cloud(100))
    async with database.connection() as connection:
        await connection.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'vectors_hnsw_1'::regclass"
        )
    assert await indexes(database) == {"vectors_hnsw_1": False}
    second = await PostgresStore.open(database, exact_rows=EXACT_ROWS)
    document, chunks = passages("u:more", "one more")
    await second.replace(document, chunks, Vectors(model="cloud", values=cloud(1)))
    assert await indexes(database) == {"vectors_hnsw_1": True}


async def test_two_stores_that_write_at_once_build_one_index(conninfo: str) -> None:
    points = cloud(4 * EXACT_ROWS)

    async def run(half: int) -> None:
        async with await Database.open(conninfo) as database:
            store = await PostgresStore.open(database, exact_rows=EXACT_ROWS)
            for n in range(half, 4 * EXACT_ROWS, 2):
                document, chunks = passages(f"u:{n}", f"point {n}")
                await store.replace(document, chunks, Vectors(model="cloud", values=points[n : n + 1]))

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, 0)
            tasks.start_soon(run, 1)
    async with await Database.open(conninfo) as database:
        assert await indexes(database) == {"vectors_hnsw_1": True}


async def test_a_replacement_that_fails_half_way_leaves_the_old_version(database: Database) -> None:
    store = await PostgresStore.open(database)
    other, chunks = passages("u:0", "elsewhere")
    await store.replace(other, chunks, vectors(X))
    await put(store, "u:1", "before")
    document, new = passages("u:1", "after", "and more")
    # The second chunk's id is found to be taken while the rows are already being written.
    new[1] = replace(new[1], chunk_id=chunks[0].chunk_id)
    with pytest.raises(InvalidStage):
        await store.replace(document, new, vectors(X, X))
    assert sorted(texts(await store.search_vector(vectors(X), scope=EVERYTHING, top_k=9))) == [
        "before",
        "elsewhere",
    ]


async def test_a_base_made_under_a_name_is_used_by_its_id(database: Database) -> None:
    store = await PostgresStore.open(database)
    async with database.connection() as connection:
        await connection.execute("INSERT INTO bases (base_id, name) VALUES ('b1', 'Papers')")
    await put(store, "u:1", "alpha", base_id="b1")
    assert await store.count(Scope(bases=("b1",))) == 1
    with pytest.raises(BaseNotFound):
        await put(store, "u:1", "alpha", base_id="Papers")


async def test_a_replaced_document_keeps_its_row_and_its_age(database: Database) -> None:
    store = await PostgresStore.open(database)
    document = await put(store, "u:1", "alpha", revision="r1")
    async with database.connection() as connection:
        await connection.execute(
            "CREATE TABLE mine (document_id text REFERENCES documents ON DELETE CASCADE)"
        )
        await connection.execute("INSERT INTO mine VALUES (%s)", [document.document_id])
        before = await (await connection.execute("SELECT created_at, updated_at FROM documents")).fetchone()
    await put(store, "u:1", "beta", revision="r2")
    async with database.connection() as connection:
        after = await (await connection.execute("SELECT created_at, updated_at FROM documents")).fetchone()
        assert await (await connection.execute("SELECT count(*) FROM mine")).fetchone() == (1,)
    assert before is not None
    assert after is not None
    assert after[0] == before[0] < after[1]


async def test_a_base_with_documents_cannot_be_deleted_and_leaves_no_row_without_them(
    database: Database,
) -> None:
    store = await PostgresStore.open(database)
    await put(store, "u:1", "alpha", "beta")
    with pytest.raises(ForeignKeyViolation):
        async with database.connection() as connection:
            await connection.execute("DELETE FROM bases WHERE base_id = 'one'")
    async with database.connection() as connection:
        await connection.execute("DELETE FROM documents WHERE base_id = 'one'")
        await connection.execute("DELETE FROM bases WHERE base_id = 'one'")
        for table in ("documents", "chunks", "vectors"):
            sql = cast(LiteralString, f"SELECT count(*) FROM {table}")
            assert await (await connection.execute(sql)).fetchone() == (0,)


async def test_a_search_survives_a_connection_that_the_server_closed(database: Database) -> None:
    store = await PostgresStore.open(database)
    await put(store, "u:1", "alpha")
    async with database.connection() as connection:
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        )
    assert texts(await store.search_text("alpha", scope=EVERYTHING, top_k=3)) == ["alpha"]


async def test_a_search_whose_connection_is_cut_in_the_middle_is_done_again(database: Database) -> None:
    store = await PostgresStore.open(database)
    await put(store, "u:1", "alpha")
    found: list[str] = []

    async def search() -> None:
        found.extend(texts((await halves(store, "alpha", vectors(X), scope=EVERYTHING, top_k=3))[1]))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks, database.connection() as connection:
            await connection.execute("LOCK TABLE chunks")
            tasks.start_soon(search)
            # Until it waits for the table, in the middle of its statements.
            ended = 0
            while not ended:
                ended = (await connection.execute(_END_WAITING)).rowcount
                await anyio.lowlevel.checkpoint()
    assert found == ["alpha"]


_END_WAITING = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


async def test_common_words_weigh_the_same_whatever_analyze_has_counted(database: Database) -> None:
    """A51: the server's statistics choose the plan, never a score."""
    store = await PostgresStore.open(database, exact_rows=EXACT_ROWS)
    words = await put_common_words(store)
    questions = [f"{words[start]} {words[start + 1]} {words[start + 9]} unknown" for start in range(0, 40, 4)]
    before = [await scores(store, question, EVERYTHING) for question in questions]
    async with database.connection() as connection:
        await connection.execute("ANALYZE chunks")
    # What was known before ANALYZE may be a minute old.
    store = PostgresStore(database, exact_rows=EXACT_ROWS)
    assert [await scores(store, question, EVERYTHING) for question in questions] == before
    assert await scores(store, questions[0], Scope(bases=("nowhere",))) == []


@pytest.mark.parametrize("exact_rows", [EXACT_ROWS, 1_000])
async def test_scores_of_a_base_tell_nothing_of_what_another_holds(
    database: Database, exact_rows: int
) -> None:
    """A score of base A is equal to the last digit, whether or not a word stands in base B.

    A is larger than `exact_rows` and smaller; B is larger than both.
    """
    store = await PostgresStore.open(database, exact_rows=exact_rows)
    words = await put_common_words(store, base="a")
    # A probe for words that stand nowhere else in A, and one for the commonest.
    await put(store, "probe", "merger redundancy acquisition", " ".join(words[:6]), base_id="a")
    scope = Scope(bases=("a",))
    questions = ["merger", "redundancy acquisition", "merger zebra", *words[:6], " ".join(words[:4])]
    alone = [await scores(store, question, scope) for question in questions]
    assert all(alone)
    exact = PostgresStore(database, exact_rows=1_000)
    both = [await hybrid_scores(exact, question, scope) for question in questions]
    for n in range(3):
        lines = [f"merger redundancy {' '.join(words[n : n + 20])}"] * 400
        await put(store, f"b:{n}", *lines, base_id="b")
        async with database.connection() as connection:
            await connection.execute("ANALYZE chunks")
        for fresh in (store, PostgresStore(database, exact_rows=exact_rows)):
            assert [await scores(fresh, question, scope) for question in questions] == alone
        exact = PostgresStore(database, exact_rows=1_000)
        assert [await hybrid_scores(exact, question, scope) for question in questions] == both


async def put_common_words(store: PostgresStore, *, base: str = "default") -> list[str]:
    """300 passages of 60 words, the first of which stand in most of them."""
    rng = np.random.default_rng(3)
    words = [f"word{n}" for n in range(60)]
    for n in range(300):
        picked = [words[rank] for rank in np.minimum(rng.geometric(0.08, size=12) - 1, 59)]
        row = rng.normal(size=len(X)).tolist()
        await put(store, f"u:{n:03d}", " ".join(picked), rows=[row], base_id=base)
    return words


async def scores(store: PostgresStore, question: str, scope: Scope) -> list[float]:
    return [hit.score for hit in await store.search_text(question, scope=scope, top_k=10)]


async def hybrid_scores(store: PostgresStore, question: str, scope: Scope) -> list[tuple[Score, ...]]:
    found = await store.search_hybrid(
        question, vectors(X), scope=scope, top_k=10, fuse=weighted, candidates=50
    )
    return [hit.scores for hit in found]


_MANY = """
WITH kept AS (
    INSERT INTO bases (base_id, name) VALUES ('hidden', 'hidden')
), generation AS (
    INSERT INTO generations (base_id, model_id, state) SELECT 'hidden', model_id, 'active' FROM models
    RETURNING generation_id
), one AS (
    INSERT INTO documents VALUES ('d', 'hidden', 'u:d', '', '', '', '', '[]', '[]', '{}', '[]', '[]')
), held AS (
    INSERT INTO generation_documents SELECT generation_id, 'd', 100000, 900000 FROM generation
)
INSERT INTO chunks (chunk_id, document_id, generation_id, base_id, index, text, start_at, end_at, context,
                    headings, metadata, terms, term_count)
SELECT 'made' || n, 'd', generation_id, 'hidden', n, '', 0, 0, '', '[]', '{}',
       CASE WHEN n % 2 = 0 THEN '''alpha'':1 ''secret'':2'::tsvector ELSE '''alpha'':1'::tsvector END, 9
FROM generation, generate_series(1, 100000) AS n
"""


@pytest.mark.parametrize("exact_rows", [EXACT_ROWS, 10_000])
async def test_a_score_says_nothing_of_a_hundred_thousand_hidden_chunks(
    database: Database, exact_rows: int
) -> None:
    """Counted or common, a word weighs what it does inside the bases of the search, to the last digit."""
    lines = [f"alpha beta{n % 7}" if n % 3 else f"alpha alpha secret gamma{n}" for n in range(90)]
    await put(await PostgresStore.open(database, exact_rows=exact_rows), "u:1", *lines)
    mine = Scope(bases=("one",))

    async def found() -> list[list[tuple[str, tuple[Score, ...]]]]:
        store = PostgresStore(database, exact_rows=exact_rows)
        rankings = [
            await store.search_text(text, scope=mine, top_k=90)
            for text in ("alpha", "secret", "alpha secret unknown", "gamma3 alpha", "unknown beta1")
            for _ in range(2)  # counted, and known from before
        ]
        rankings += [
            await store.search_hybrid(text, vectors(X), scope=mine, top_k=90, fuse=hybrid, candidates=90)
            for text in ("alpha secret unknown", "gamma3")
        ]
        return [[(hit.chunk.chunk_id, hit.scores) for hit in hits] for hits in rankings]

    before = await found()
    async with database.connection() as connection:
        await connection.execute(_MANY)
    assert await found() == before
    async with database.connection() as connection:
        await connection.execute("ANALYZE")
    assert await found() == before


async def test_dead_vectors_are_vacuumed_early_and_common_terms_counted(database: Database) -> None:
    """W29: each dead row is a step of every walk."""
    await PostgresStore.open(database)
    async with database.connection() as connection:
        cursor = await connection.execute(
            "SELECT unnest(reloptions) FROM pg_class WHERE oid = 'vectors'::regclass"
        )
        options = {row[0] for row in await cursor.fetchall()}
        assert options == {"autovacuum_vacuum_threshold=200", "autovacuum_vacuum_scale_factor=0.01"}
        cursor = await connection.execute(
            "SELECT attstattarget FROM pg_attribute WHERE attrelid = 'chunks'::regclass AND attname = 'terms'"
        )
        assert await cursor.fetchone() == (300,)


async def test_two_processes_may_open_the_store_at_once(conninfo: str) -> None:
    async def run() -> None:
        async with await Database.open(conninfo) as database:
            store = await PostgresStore.open(database)
            document, chunks = passages("u:1", "alpha")
            await store.replace(document, chunks, vectors(X))
            assert await store.count(EVERYTHING) == 1

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(run)


async def test_large_documents_are_stored_whole(database: Database) -> None:
    store = await PostgresStore.open(database)
    text = "长文本 with words\n" * 200_000
    document = Document(text=text, uri="u:1", base_id="one")
    await store.replace(document, [], Vectors(model=MODEL, values=np.zeros((0, 3), np.float32)))
    stored = await store.document(document.document_id)
    assert stored is not None
    assert stored.text == text


_CATALOG = """
SELECT 'column', table_name, column_name, data_type || ' ' || udt_name || ' ' || is_nullable
       || ' ' || coalesce(column_default, '') || ' ' || coalesce(collation_name, '') || ' ' || is_identity
FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL
SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL
SELECT 'table', c.relname, a.attname, concat(c.reloptions, a.attstorage, a.attstattarget, a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
UNION ALL
SELECT 'trigger', tgrelid::regclass::text, tgname, concat(pg_get_triggerdef(oid), tgenabled)
FROM pg_trigger WHERE NOT tgisinternal
UNION ALL
SELECT 'function', pronamespace::regnamespace::text, proname, prosrc
FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prolang <> 13 AND proname = 'feed_outbox'
ORDER BY 1, 2, 3, 4
"""


async def test_rows_of_what_was_stored_without_them_are_counted_in_its_text(conninfo: str) -> None:
    text = "| stop | price |\n| --- | --- |\n| Halm | 3 |\n| Oster | 4 |\n| Brae | 5 |"
    async with await Database.open(conninfo) as database:
        store = await PostgresStore.open(database)
        at = text.index("| Oster")
        await store.replace(*one_passage(text, uri="u:1", media_type="text/csv", start=at), vectors(X))
        async with database.connection() as connection:
            await connection.execute("UPDATE chunks SET rows = NULL")
            await connection.execute("UPDATE documents SET rows = '[]'")
        (hit,) = await store.search_text("Brae", scope=EVERYTHING, top_k=1)
        (near,) = await store.neighbours(hit.chunk.chunk_id, 1)
    assert [chunk.place().row for chunk in (hit.chunk, near.chunk)] == [3, 3]
    assert hit.chunk.place(text.index("| Brae")).row == 4


async def catalog(connection: Connection) -> list[tuple[str, ...]]:
    rows = await (await connection.execute(_CATALOG)).fetchall()
    return [row for row in rows if "ragstone_migrations" not in row[1]]


async def test_the_schema_files_equal_all_migrations(conninfo: str, embedded_database: str) -> None:
    async with await Database.open(conninfo) as database:
        await PostgresStore.open(database)
        async with database.connection() as connection:
            await migrate(connection, "kb", files("ragstone.kb") / "migrations")
            migrated = await catalog(connection)
    with temporary_database(embedded_database) as other:
        async with await psycopg.AsyncConnection.connect(other) as connection:
            await prepare_server(connection)
            for package in ("ragstone.store", "ragstone.kb"):
                schema = (files(package) / "schema.sql").read_text(encoding="utf-8")
                await connection.execute(cast(LiteralString, schema))
            written = await catalog(connection)
    assert written == migrated
    assert {row[1] for row in migrated} >= {
        "models",
        "bases",
        "documents",
        "chunks",
        "vectors",
        "jobs",
        "messages",
    }


def test_no_sql_but_the_two_integers_is_made_of_values() -> None:
    blocks = "".join(path.read_text(encoding="utf-8") for path in (files("ragstone.store") / "sql").iterdir())
    filled = set(re.findall(r"\{(\w+)\}", blocks))
    assert filled <= {"scope", "join", "columns", "table", "name", "left", "right", "value", "item"} | {
        "inner",
        "place",
        "column",
        "inside",
        "scanned",
        "rest",
        "documents",
        "chunks",
        "key",
        "path",
        "values",
        "model_id",
        "dimension",
    }
