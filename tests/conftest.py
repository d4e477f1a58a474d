"""What every test shares."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from shared_data import SHOWN


def pytest_configure() -> None:
    """A run in a shell's background or under nohup ignores signals, and so would the commands it tests."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have recorded under this name, also those of other processes."""
    for report in terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", []):
        for name, text in report.user_properties:
            if name == SHOWN:
                terminalreporter.write_line(f"\n{report.nodeid}\n{text}")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def blocked_loop_fails(request: pytest.FixtureRequest) -> Iterator[None]:
    """A blocking call of ours on an event loop fails the test that makes it.

    Tests marked `calls_blocking_parts` call on purpose what an adapter runs in a thread.
    """
    if request.node.get_closest_marker("calls_blocking_parts"):
        yield
        return
    with blockbuster_ctx("ragstone") as blockbuster:
        # Small files of the package, each read once: as good as an import.
        for call in ("io.TextIOWrapper.read", "io.BufferedReader.read", "os.stat", "os.listdir"):
            for place, function in (
                ("messages/__init__", "_area"),
                ("prompts/__init__", "prompt_text"),
                ("terms", "_letters"),
            ):
                blockbuster.functions[call].can_block_in(f"ragstone/{place}.py", function)
        yield


@pytest.fixture(scope="session")
def runtime_folder() -> Iterator[Path]:
    """Where root puts PostgreSQL binaries for an unprivileged user: a folder all may enter."""
    folder = Path(tempfile.mkdtemp(prefix="ragstone-runtime-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def embedded_database(runtime_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The conninfo of an empty embedded PostgreSQL that lives as long as the session."""
    from ragstone.postgres.cluster import Cluster

    cluster = Cluster(tmp_path_factory.mktemp("embedded"), runtime_folder=runtime_folder)
    try:
        cluster.attach(lambda key, values: None)
        yield cluster.conninfo()
    finally:
        cluster.release()


@pytest.fixture
def conninfo(embedded_database: str) -> Iterator[str]:
    """The conninfo of an empty database of its own on the embedded server."""
    from ragstone.testing.databases import temporary_database

    with temporary_database(embedded_database) as conninfo:
        yield conninfo


@pytest.fixture(scope="session")
def local_model_folder() -> Path:
    """A folder with the converted embedding model, kept between runs; checked by its manifest."""
    from ragstone.embed.cache import ensure_converted

    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    kept = Path(tempfile.gettempdir()) / f"ragstone-test-models-{user}"
    folder = Path(os.environ.get("RAGSTONE_TEST_MODELS") or kept)
    ensure_converted(folder)
    return folder
