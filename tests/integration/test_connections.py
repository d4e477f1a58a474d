"""A server whose clients open connections and say nothing, or little, still answers the others."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from services import wait_until
from serving import address_of, environment_of

FILES = 256
PROGRAM = (
    "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}));"
    "from ragstone.kb.api import connections;"
    "connections.HEADER_S = connections.BODY_S = {seconds};"
    "from ragstone.cli import run; run()"
)


class Serving:
    def __init__(self, address: str, log: Path) -> None:
        self.address = address
        self.log = log
        parts = urlsplit(address)
        self.place = (parts.hostname or "", parts.port or 0)

    def connect(self, stack: ExitStack) -> socket.socket:
        return stack.enter_context(socket.create_connection(self.place, timeout=30))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """`ragstone serve` that may open 256 files."""
    with serving(tmp_path_factory.mktemp("connections"), seconds=10.0) as server:
        yield server


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The same, which waits a second for a header, and for more of a body."""
    with serving(tmp_path_factory.mktemp("impatient"), seconds=1.0) as server:
        yield server


@contextmanager
def serving(folder: Path, *, seconds: float) -> Iterator[Serving]:
    log = folder / "log"
    program = PROGRAM.format(files=FILES, seconds=seconds)
    with log.open("w") as errors:
        running = subprocess.Popen(
            [sys.executable, "-c", program, "serve", "--port", "0"],
            env=environment_of(folder / "home"),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            yield Serving(address_of(running), log)
        finally:
            running.terminate()
            running.communicate(timeout=30)


def closed(connection: socket.socket) -> bool:
    """Whether the server has closed it."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_c19_idle_connections_do_not_lock_others_out(server: Serving) -> None:
    with ExitStack() as stack:
        idle = [server.connect(stack) for _ in range(400)]
        for n in range(5):
            assert httpx2.get(f"{server.address}/healthz", timeout=30).status_code == 200, n
        assert any(closed(one) for one in idle)
    assert server.log.stat().st_size < 100_000


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP",
        b"POST /api/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\n\r\n{",
    ],
    ids=["nothing", "half a header", "half a second header", "half a body"],
)
def test_a_request_that_never_ends_is_closed(impatient: Serving, said: bytes) -> None:
    with ExitStack() as stack:
        connection = impatient.connect(stack)
        connection.sendall(said)
        wait_until(lambda: closed(connection), seconds=30, what="the connection is closed")
