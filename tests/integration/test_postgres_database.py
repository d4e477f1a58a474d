"""A PostgreSQL server of one's own: connections, failures, migrations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import anyio
import anyio.lowlevel
import pytest

pytest.importorskip("psycopg")

import psycopg
from psycopg import AsyncConnection
from psycopg.sql import SQL, Identifier

from ragstone.errors import InvalidSetting, RagstoneError, StoreBusy, StoreIncompatible, StoreUnavailable
from ragstone.postgres.migrate import migrate, prepare_server
from ragstone.postgres.pool import Connection, Database

if TYPE_CHECKING:
    from services import ExternalPostgres

pytestmark = pytest.mark.anyio


async def administer(server: ExternalPostgres, *statements: SQL) -> None:
    async with await AsyncConnection.connect(server.url, autocommit=True) as connection:
        for statement in statements:
            await connection.execute(statement)


@pytest.fixture
async def url(external_postgres: ExternalPostgres) -> str:
    """An empty database of the external server."""
    name = f"test_{uuid4().hex}"
    await administer(external_postgres, SQL("CREATE DATABASE {}").format(Identifier(name)))
    return external_postgres.url_of(name)


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    async with await Database.open(url, max_size=3) as database:
        yield database


async def values(connection: Connection, query: SQL) -> list[object]:
    return [row[0] for row in await (await connection.execute(query)).fetchall()]


# --- connecting ---


async def test_a_url_and_keyword_words_both_connect(external_postgres: ExternalPostgres) -> None:
    words = (
        f"host=127.0.0.1 port={external_postgres.port} user=postgres password={external_postgres.password}"
    )

    for conninfo in (external_postgres.url, words):
        async with await Database.open(conninfo) as database, database.connection() as connection:
            assert connection.info.parameter_status("TimeZone") == "UTC"
            assert await values(connection, SQL("SELECT current_setting('application_name')")) == ["ragstone"]


async def refusal(url: str) -> RagstoneError:
    with pytest.raises(RagstoneError) as caught:
        await Database.open(url)
    return caught.value


@pytest.mark.parametrize(
    ("database", "password", "named"),
    [("postgres", "wrong-secret", "password"), ("nowhere", None, "nowhere")],
)
async def test_a_refused_connection_names_the_setting_and_no_password(
    external_postgres: ExternalPostgres, database: str, password: str | None, named: str
) -> None:
    error = await refusal(external_postgres.url_of(database, password=password))

    assert isinstance(error, InvalidSetting)
    assert error.code == "postgres.refused"
    assert "RAGSTONE_DATABASE_URL" in str(error)
    assert named in str(error)
    assert "wrong-secret" not in str(error)
    assert external_postgres.password not in str(error)
    assert error.__cause__ is None


async def test_no_server_at_the_address_is_transient() -> None:
    error = await refusal("postgresql://me:topsecret@127.0.0.1:1/x")

    assert isinstance(error, StoreUnavailable)
    assert "topsecret" not in str(error)


@pytest.mark.parametrize(
    "url",
    [
        "hunter2",
        "mysql://me:hunter2@host/x",
        "postgresql://me:hunter2%zz@host/x",
        "postgresql://me:hun@ter2@host/x",
        "postgresql://me:hun/ter2@host/x",
        "postgresql://me:hunter2@host:x1/x",
        "postgresql://12/hunter2@host/x",
    ],
)
async def test_a_text_that_is_no_address_is_never_repeated(url: str) -> None:
    error = await refusal(url)

    assert isinstance(error, InvalidSetting)
    assert error.code == "postgres.url"
    assert "hunter2" not in str(error)
    assert "ter2" not in str(error)
    assert "%40" in error.text("zh")


# --- using connections ---


async def test_a_block_is_committed_and_a_failed_one_rolled_back(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("CREATE TABLE t (x int)")
        await connection.execute("INSERT INTO t VALUES (1)")

    async def fail(x: int) -> None:
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO t VALUES (%s)", [x])
            raise LookupError

    with pytest.raises(LookupError):
        await fail(2)
    async with database.connection() as connection:
        assert await values(connection, SQL("SELECT x FROM t")) == [1]


async def test_a_broken_connection_is_replaced_and_a_read_done_again(database: Database) -> None:
    backends: list[int] = []

    async def work(connection: Connection) -> list[object]:
        backends.append(connection.info.backend_pid)
        if len(backends) == 1:
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return await values(connection, SQL("SELECT 1"))

    assert await database.run_retrying(work) == [1]
    assert len(set(backends)) == 2


async def test_a_write_on_a_broken_connection_is_reported_as_transient(database: Database) -> None:
    with pytest.raises(StoreUnavailable, match="connection to the database broke"):
        async with database.connection() as connection:
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")


async def test_a_dead_idle_connection_is_noticed_before_it_is_given_out(
    database: Database, external_postgres: ExternalPostgres
) -> None:
    async with database.connection() as connection:
        pid = connection.info.backend_pid
    await administer(external_postgres, SQL("SELECT pg_terminate_backend({}, 5000)").format(pid))

    async with database.connection() as connection:
        assert connection.info.backend_pid != pid


async def test_work_that_breaks_twice_is_a_clear_error(database: Database) -> None:
    tried = 0

    async def work(connection: Connection) -> None:
        nonlocal tried
        tried += 1
        await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(StoreUnavailable, match="connection to the database broke"):
        await database.run_retrying(work)
    assert tried == 2


async def test_a_read_goes_on_when_every_connection_of_the_pool_is_dead(
    database: Database, external_postgres: ExternalPostgres
) -> None:
    pids: list[int] = []

    async def hold(ready: anyio.Event, done: anyio.Event) -> None:
        async with database.connection() as connection:
            pids.append(connection.info.backend_pid)
            ready.set()
            await done.wait()

    done = anyio.Event()
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            ready = anyio.Event()
            tasks.start_soon(hold, ready, done)
            await ready.wait()
        done.set()
    for pid in pids:
        await administer(external_postgres, SQL("SELECT pg_terminate_backend({}, 5000)").format(pid))

    assert await database.run_retrying(lambda connection: values(connection, SQL("SELECT 1"))) == [1]


async def test_where_all_connections_are_in_use_work_waits_and_gives_up_in_time(url: str) -> None:
    async def ask(connection: Connection) -> list[object]:
        return await values(connection, SQL("SELECT 1"))

    async with await Database.open(url, max_size=1, wait=0.2) as database:
        async with database.connection():
            with anyio.fail_after(20):
                with pytest.raises(StoreBusy, match="No database connection became free") as caught:
                    await database.run_retrying(ask)
                with pytest.raises(StoreBusy):
                    async with database.connection():
                        pass
            assert isinstance(caught.value, StoreUnavailable)
        assert await database.run_retrying(ask) == [1]
    async with (
        await Database.open(url, max_size=1) as database,
        anyio.create_task_group() as tasks,
        database.connection(),
    ):
        tasks.start_soon(database.run_retrying, ask)
        await anyio.lowlevel.checkpoint()


async def test_a_cancelled_query_leaves_the_pool_whole(database: Database) -> None:
    for _ in range(4):
        with anyio.move_on_after(0.05) as scope:
            async with database.connection() as connection:
                await connection.execute("SELECT pg_sleep(30)")
        assert scope.cancelled_caught

    async with database.connection() as connection:
        assert await values(connection, SQL("SELECT 1")) == [1]


async def test_work_cancelled_before_it_has_its_connection_leaves_the_pool_whole(url: str) -> None:
    async with await Database.open(url, max_size=1, wait=5) as database:
        for steps in range(100):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancelled_after, steps, tasks.cancel_scope)
                async with database.connection():
                    await anyio.sleep_forever()
        async with database.connection() as connection:
            assert await values(connection, SQL("SELECT 1")) == [1]


async def _cancelled_after(steps: int, scope: anyio.CancelScope) -> None:
    for _ in range(steps):
        await anyio.lowlevel.checkpoint()
    scope.cancel()


async def test_a_read_only_server_says_what_to_do(database: Database) -> None:
    write = SQL("CREATE TABLE t (x int)")

    with pytest.raises(StoreIncompatible, match="not read-only"):
        async with database.transaction() as connection:
            await connection.execute(SQL("SET TRANSACTION READ ONLY; {}").format(write))


async def test_wrong_sql_stays_an_error_of_the_code(database: Database) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable):
        async with database.connection() as connection:
            await connection.execute("SELECT * FROM nowhere")


async def test_a_closed_database_says_so(database: Database) -> None:
    await database.aclose()

    with pytest.raises(StoreUnavailable, match="closed"):
        async with database.connection():
            pass


# --- pgvector ---


async def prepare(url: str) -> None:
    async with await Database.open(url) as database, database.connection() as connection:
        await prepare_server(connection)


async def test_pgvector_is_set_up_once(url: str) -> None:
    await prepare(url)
    await prepare(url)

    async with await Database.open(url) as database, database.connection() as connection:
        assert await values(connection, SQL("SELECT '[1,2]'::halfvec(2) <=> '[1,2]'")) == [0.0]


async def test_a_server_without_pgvector_says_what_to_install(
    postgres_without_pgvector: ExternalPostgres,
) -> None:
    with pytest.raises(StoreIncompatible, match="apt install postgresql-16-pgvector"):
        await prepare(postgres_without_pgvector.url)


async def test_a_pgvector_before_0_8_is_refused_at_the_start(
    url: str, postgres_with_old_pgvector: ExternalPostgres
) -> None:
    await prepare(url)
    async with await AsyncConnection.connect(url) as connection:
        await connection.execute("UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'")

    with pytest.raises(StoreIncompatible, match="ALTER EXTENSION vector UPDATE") as installed:
        await prepare(url)
    with pytest.raises(StoreIncompatible) as available:
        await prepare(postgres_with_old_pgvector.url)
    for caught in (installed, available):
        assert "0.7.4" in str(caught.value)
        assert "0.8" in caught.value.text("zh")


async def test_a_role_that_may_not_set_up_pgvector_is_told_what_to_run(
    external_postgres: ExternalPostgres,
) -> None:
    name = f"plain_{uuid4().hex}"
    await administer(
        external_postgres,
        SQL("CREATE ROLE {} LOGIN PASSWORD 'x'").format(Identifier(name)),
        SQL("CREATE DATABASE {} OWNER {}").format(Identifier(name), Identifier(name)),
    )

    with pytest.raises(StoreIncompatible, match="CREATE EXTENSION vector;") as caught:
        await prepare(external_postgres.url_of(name, user=name, password="x"))
    assert name in caught.value.text("zh")


async def test_a_database_of_another_encoding_is_refused(external_postgres: ExternalPostgres) -> None:
    name = f"latin_{uuid4().hex}"
    await administer(
        external_postgres,
        SQL("CREATE DATABASE {} ENCODING 'LATIN1' TEMPLATE template0").format(Identifier(name)),
    )

    with pytest.raises(StoreIncompatible, match="LATIN1; UTF8 is needed"):
        await prepare(external_postgres.url_of(name))


# --- migrations ---


def write_set(folder: Path, *statements: str) -> Path:
    folder.mkdir(exist_ok=True)
    for number, text in enumerate(statements, start=1):
        (folder / f"{number:04d}_step.sql").write_text(text, encoding="utf-8")
    return folder


async def run_set(database: Database, name: str, folder: Path) -> int:
    async with database.connection() as connection:
        return await migrate(connection, name, folder)


async def test_files_run_once_in_order_and_sets_do_not_meet(database: Database, tmp_path: Path) -> None:
    one = write_set(tmp_path / "one", "CREATE TABLE a (x int); -- 100%", "INSERT INTO a VALUES (1)")
    two = write_set(tmp_path / "two", "INSERT INTO a VALUES (2)")

    assert await run_set(database, "one", one) == 2
    assert await run_set(database, "one", one) == 0
    assert await run_set(database, "two", two) == 1
    write_set(one, "CREATE TABLE a (x int); -- 100%", "INSERT INTO a VALUES (1)", "INSERT INTO a VALUES (3)")
    assert await run_set(database, "one", one) == 1

    async with database.connection() as connection:
        assert await values(connection, SQL("SELECT x FROM a ORDER BY x")) == [1, 2, 3]


async def test_two_processes_that_migrate_at_once_run_each_file_once(url: str, tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", *(f"CREATE TABLE t{number} (x int)" for number in range(10)))
    ran: list[int] = []

    async def process() -> None:
        async with await Database.open(url) as database:
            ran.append(await run_set(database, "library", folder))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(process)

    assert sum(ran) == 10


async def test_a_file_that_fails_leaves_nothing_of_itself(database: Database, tmp_path: Path) -> None:
    folder = write_set(tmp_path / "set", "CREATE TABLE a (x int)", "CREATE TABLE b (x int); SELECT 1/0")

    with pytest.raises(psycopg.errors.DivisionByZero):
        await run_set(database, "library", folder)

    async with database.connection() as connection:
        tables = SQL("SELECT relname FROM pg_class WHERE relname IN ('a', 'b')")
        assert await values(connection, tables) == ["a"]
        assert await values(connection, SQL("SELECT number FROM ragstone_migrations")) == [1]


async def test_data_newer_than_the_code_is_refused(database: Database, tmp_path: Path) -> None:
    await run_set(database, "library", write_set(tmp_path / "new", "SELECT 1", "SELECT 2"))

    with pytest.raises(StoreIncompatible, match="step 2, this version knows 1") as caught:
        await run_set(database, "library", write_set(tmp_path / "old", "SELECT 1"))
    assert caught.value.code == "postgres.newer"


async def test_an_applied_file_that_changed_is_refused(database: Database, tmp_path: Path) -> None:
    await run_set(database, "library", write_set(tmp_path / "set", "SELECT 1"))

    with pytest.raises(StoreIncompatible) as caught:
        await run_set(database, "library", write_set(tmp_path / "set", "SELECT 2", "SELECT 3"))
    assert caught.value.code == "postgres.changed"

    # Nor may one with more steps be called newer where the first of them are others.
    await run_set(database, "kb", write_set(tmp_path / "longer", "SELECT 1", "SELECT 2"))
    with pytest.raises(StoreIncompatible) as caught:
        await run_set(database, "kb", write_set(tmp_path / "shorter", "SELECT 3"))
    assert caught.value.code == "postgres.changed"


async def test_line_ends_of_a_checkout_do_not_change_a_file(database: Database, tmp_path: Path) -> None:
    await run_set(database, "library", write_set(tmp_path / "unix", "SELECT 1;\nSELECT 2;\n"))
    (folder := tmp_path / "dos").mkdir()
    (folder / "0001_step.sql").write_bytes(b"SELECT 1;\r\nSELECT 2;\r\n")

    assert await run_set(database, "library", folder) == 0


async def test_a_role_without_the_right_to_create_tables_is_told_so(
    external_postgres: ExternalPostgres, tmp_path: Path
) -> None:
    name = f"plain_{uuid4().hex}"
    await administer(
        external_postgres,
        SQL("CREATE ROLE {} LOGIN PASSWORD 'x'").format(Identifier(name)),
        SQL("CREATE DATABASE {}").format(Identifier(name)),
    )
    folder = write_set(tmp_path / "set", "SELECT 1")

    async with await Database.open(external_postgres.url_of(name, user=name, password="x")) as database:
        with pytest.raises(StoreIncompatible, match="GRANT USAGE, CREATE ON SCHEMA"):
            await run_set(database, "library", folder)


@pytest.mark.parametrize("name", ["0002_step.sql", "1_step.sql", "0001-step.sql"])
async def test_a_wrong_file_name_fails_at_once(database: Database, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("SELECT 1", encoding="utf-8")

    with pytest.raises(ValueError, match="expected 0001_name"):
        await run_set(database, "library", tmp_path)
