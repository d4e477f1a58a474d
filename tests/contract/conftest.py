"""Servers that the contract suites run against: started at first need, one of each a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from services import milvus_server, redis_server


@pytest.fixture(scope="session")
def milvus_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where milvus-lite keeps what it is given; one process at a time may open it."""
    return tmp_path_factory.mktemp("milvus-lite") / "index.db"


@pytest.fixture(scope="session")
def milvus_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("milvus", reason="the package of the server is for Linux on x86-64")
    with milvus_server(tmp_path_factory.mktemp("milvus-server")) as url:
        yield url


@pytest.fixture(scope="session")
def redis8_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url
