"""A vector index in Milvus: a server (2.3 or later), or milvus-lite in a local file."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import anyio
import anyio.to_thread
import numpy as np

from ragstone.errors import InvalidSetting, MissingExtra, StoreUnavailable
from ragstone.store.index import base_key, batches, check_dimension, check_rows
from ragstone.types import digest

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")

PUT_BATCH = 1_000
"""Rows a request; 1,000 of 4,000 dimensions stay below the 64 MB that a server takes."""
DROP_BATCH = 1_000
EF = 120
"""How many nodes a search keeps in view; as many as PostgreSQL's own index, more when more are asked for."""
TIMEOUT_S = 5.0
"""For a connection and for a search; a write may take longer."""
WRITE_TIMEOUT_S = 30.0
MAX_ID = 256

_LITE = ".db"


class MilvusIndex:
    """Implements `protocols.VectorIndex`. Connects at first need; all calls run in threads.

    Made by `MilvusIndex.open`. Inner product of vectors of length 1, under HNSW (M=16,
    efConstruction=64). `consistency` is Milvus's own word: `Bounded` finds a vector some
    seconds after it was put, `Strong` at once but waits for it.
    """

    def __init__(self, url: str, identity: str, *, consistency: str = "Bounded") -> None:
        self._url = url
        self._identity = identity
        self._consistency = consistency
        self._connected: Any = None
        self._lock = anyio.Lock()
        self._dimensions: dict[str, int] = {}

    @classmethod
    async def open(cls, url: str, *, consistency: str = "Bounded") -> MilvusIndex:
        """An index at `http://[user:password@]host:19530`, or in the file `/some/where/name.db`.

        Raises:
            MissingExtra: pymilvus, or milvus-lite for a file, is not installed.
            InvalidSetting: neither an address nor a file whose name ends with `.db`.
        """
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname:
            identity = f"milvus:{parts.hostname}:{parts.port or 19530}{parts.path.rstrip('/')}"
        elif url.endswith(_LITE) and "://" not in url:
            url = str(await anyio.Path(url).expanduser())
            url = str(await anyio.Path(url).absolute())
            identity = f"milvus:{url}"
        else:
            raise InvalidSetting(
                "store.index_url", kind="milvus", example="http://localhost:19530, milvus.db"
            )
        await anyio.to_thread.run_sync(_check_installed, url.endswith(_LITE))
        return cls(url, identity, consistency=consistency)

    @property
    def identity(self) -> str:
        return self._identity

    async def put(
        self, collection: str, ids: Sequence[str], vectors: NDArray[np.float32], *, bases: Sequence[str]
    ) -> None:
        check_rows(collection, ids, vectors, bases)
        if not ids:
            return
        # Of an id that is there twice the last counts, as it would one by one.
        rows = {
            chunk_id: {
                "key": digest(chunk_id),
                "chunk_id": chunk_id,
                "base": base_key(base),
                "vector": vector,
            }
            for chunk_id, vector, base in zip(ids, vectors, bases, strict=True)
        }

        def write(client: Any) -> None:
            dimension = vectors.shape[1]
            if (stored := self._dimension(client, collection)) is None:
                stored = self._make(client, collection, dimension)
            check_dimension(collection, dimension, stored)
            for batch in batches(list(rows.values()), PUT_BATCH):
                client.upsert(collection, list(batch), timeout=WRITE_TIMEOUT_S)

        await self._run(write)

    async def drop(self, collection: str, ids: Sequence[str]) -> None:
        def remove(client: Any) -> None:
            if self._dimension(client, collection) is not None:
                for batch in batches([digest(chunk_id) for chunk_id in ids], DROP_BATCH):
                    client.delete(collection, filter=_among("key", batch), timeout=WRITE_TIMEOUT_S)

        await self._run(remove)

    async def search(
        self, collection: str, vector: NDArray[np.float32], *, bases: Sequence[str] | None, top_k: int
    ) -> list[str]:
        check_rows(collection, ["question"], vector[None], ["any"])
        if bases is not None and not bases:
            return []

        def find(client: Any) -> list[str]:
            stored = self._dimension(client, collection)
            if stored is None:
                return []
            check_dimension(collection, vector.shape[0], stored)
            (hits,) = client.search(
                collection,
                data=[vector],
                anns_field="vector",
                filter="" if bases is None else _among("base", [base_key(base_id) for base_id in bases]),
                limit=top_k,
                output_fields=["chunk_id"],
                search_params={"metric_type": "IP", "params": {"ef": max(EF, top_k)}},
                consistency_level=self._consistency,
                timeout=TIMEOUT_S,
            )
            return [hit["entity"]["chunk_id"] for hit in hits]

        return await self._run(find, abandon=True)

    async def clear(self, collection: str) -> None:
        def remove(client: Any) -> None:
            self._dimensions.pop(collection, None)
            client.drop_collection(collection, timeout=WRITE_TIMEOUT_S)

        await self._run(remove)

    async def aclose(self) -> None:
        async with self._lock:
            client, self._connected = self._connected, None
        if client is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_close, client, self._url)

    # --- calls in threads ------------------------------------------------------------

    async def _run(self, work: Callable[[Any], T], *, abandon: bool = False) -> T:
        """`work` with the client, in a thread; Milvus's errors as ours.

        A write is not abandoned when its caller is cancelled: it would end at any later time,
        after a newer one.
        """
        async with self._lock:
            if self._connected is None:
                self._connected = await anyio.to_thread.run_sync(self._guarded, self._connect)
        return await anyio.to_thread.run_sync(
            self._guarded, lambda: work(self._connected), abandon_on_cancel=abandon
        )

    def _guarded(self, work: Callable[[], T]) -> T:
        import grpc
        from pymilvus.exceptions import MilvusException

        try:
            return work()
        except (MilvusException, grpc.RpcError, OSError) as error:
            # What is known of the collections may be what was wrong.
            self._dimensions.clear()
            lines = str(getattr(error, "message", "") or error).strip().splitlines()
            reason = lines[0] if lines else type(error).__name__
            raise StoreUnavailable("store.index_failed", index=self._identity, reason=reason) from error

    def _connect(self) -> Any:
        from pymilvus import MilvusClient

        # It writes each failed call with its traceback to standard error; ours say what failed.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL + 1)
        if self._url.endswith(_LITE):
            Path(self._url).parent.mkdir(parents=True, exist_ok=True)
        return MilvusClient(**connection_arguments(self._url), timeout=TIMEOUT_S)

    def _dimension(self, client: Any, collection: str) -> int | None:
        """The dimension of a collection; None when it does not exist."""
        if collection not in self._dimensions:
            if not client.has_collection(collection, timeout=TIMEOUT_S):
                return None
            described = client.describe_collection(collection, timeout=TIMEOUT_S)
            # After a restart of milvus-lite it lies on the disk only.
            client.load_collection(collection, timeout=WRITE_TIMEOUT_S)
            (vector,) = (item for item in described["fields"] if item["name"] == "vector")
            self._dimensions[collection] = int(vector["params"]["dim"])
        return self._dimensions[collection]

    def _make(self, client: Any, collection: str, dimension: int) -> int:
        from pymilvus import DataType
        from pymilvus.exceptions import MilvusException

        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("key", DataType.VARCHAR, is_primary=True, max_length=MAX_ID)
        schema.add_field("chunk_id", DataType.VARCHAR, max_length=MAX_ID)
        schema.add_field("base", DataType.VARCHAR, max_length=MAX_ID)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
        indexes = client.prepare_index_params()
        indexes.add_index(
            "vector", index_type="HNSW", metric_type="IP", params={"M": 16, "efConstruction": 64}
        )
        try:
            client.create_collection(collection, schema=schema, index_params=indexes, timeout=WRITE_TIMEOUT_S)
        except MilvusException:
            # Another process may have made it at the same time.
            if not client.has_collection(collection, timeout=TIMEOUT_S):
                raise
        return self._dimension(client, collection) or dimension


def _check_installed(lite: bool) -> None:
    from importlib.util import find_spec

    for package in ("pymilvus", *(["milvus_lite"] if lite else [])):
        if find_spec(package) is None:
            raise MissingExtra("core.missing_extra", feature="RAGSTONE_VECTOR_INDEX=milvus", extra="milvus")


def connection_arguments(url: str) -> Mapping[str, str]:
    """What `MilvusClient` takes for this address; user and password as they are, without their % escapes."""
    if url.endswith(_LITE):
        return {"uri": url}
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    address = urlunsplit(SplitResult(parts.scheme, host, "", "", ""))
    return {
        "uri": address,
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "db_name": parts.path.strip("/"),
    }


def _close(client: Any, url: str) -> None:
    client.close()
    if url.endswith(_LITE):
        from milvus_lite.server_manager import server_manager_instance

        # Its folder can then be opened by another process.
        server_manager_instance.release_server(url)


def _among(field: str, keys: Sequence[str]) -> str:
    """A condition on letters and digits only, so there is nothing to quote."""
    return f"{field} in [" + ",".join(f'"{key}"' for key in keys) + "]"
