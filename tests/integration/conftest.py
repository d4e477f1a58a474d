"""Servers, commands and applications that the tests of this folder start."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from command_line import CommandLine, Inside

from ragstone.kb import bases
from ragstone.kb.bootstrap import App
from ragstone.testing.databases import temporary_database
from services import ExternalPostgres, postgres_server
from talking import Talk, talking
from working import application


@pytest.fixture(scope="session")
def external_postgres() -> Iterator[ExternalPostgres]:
    """PostgreSQL 16 with pgvector on TCP; `external_postgres.url` connects."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_without_pgvector() -> Iterator[ExternalPostgres]:
    with postgres_server(vector=False) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_with_old_pgvector() -> Iterator[ExternalPostgres]:
    with postgres_server(vector_version="0.7.4") as server:
        yield server


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A RAGSTONE_HOME whose embedded PostgreSQL runs for the session, so that commands attach to it."""
    from ragstone.postgres.cluster import Cluster

    home = tmp_path_factory.mktemp("home")
    cluster = Cluster(home)
    try:
        cluster.attach(lambda key, values: None)
        yield home
    finally:
        cluster.release()


@pytest.fixture
def ragstone(shared_home: Path, tmp_path: Path) -> CommandLine:
    """The command with the embedded database and the fake embedder; runs in an empty folder."""
    return CommandLine(home=shared_home, folder=tmp_path)


@pytest.fixture
def light(tmp_path: Path) -> CommandLine:
    """The command in a home where nothing has been started, for what needs no database."""
    (tmp_path / "home").mkdir()
    return CommandLine(home=tmp_path / "home", folder=tmp_path)


@pytest.fixture
def inside(light: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Inside:
    """The command of `light` within this process."""
    return Inside(command=light, patch=monkeypatch, captured=capsys)


@pytest.fixture
async def app(conninfo: str, tmp_path: Path) -> AsyncIterator[App]:
    """The parts of an application on an empty database."""
    async with application(conninfo, tmp_path) as app:
        yield app


@pytest.fixture
async def base_id(app: App) -> str:
    return await bases.ensure(await app.database(), "papers")


@pytest.fixture(scope="module")
async def served(embedded_database: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Talk]:
    with temporary_database(embedded_database) as database:
        async with talking(tmp_path_factory.mktemp("talk"), database) as talk:
            yield talk


@pytest.fixture
def talk(served: Talk) -> Talk:
    """A server that asks a provider, the same for a whole file of tests; the provider is as new."""
    served.provider.chat = lambda body: "It leaves at 22:15 [1]."
    served.provider.requests.clear()
    served.provider.left_early = 0
    return served
