"""PostgreSQL servers that are not the embedded one: the wheel's 16, on TCP with a password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine, Inside

from services import ExternalPostgres, postgres_server


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
