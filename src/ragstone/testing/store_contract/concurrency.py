"""Documents change while others read."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import anyio.lowlevel
import pytest

from ragstone.protocols import Store
from ragstone.testing.store_contract.passages import (
    EVERYTHING,
    X,
    Y,
    halves,
    passages,
    vectors,
)
from ragstone.types import Hit


@pytest.mark.anyio
class ConcurrencyContract:
    """Documents change while others read."""

    async def test_readers_see_whole_documents_while_writers_replace_them(self, store: Store) -> None:
        uris, versions = ["u:a", "u:b", "u:c"], 8
        for uri in uris:
            await self._version(store, uri, 0)
        writing = anyio.Event()
        seen = 0

        async def write(start: int) -> None:
            for version in range(1, versions):
                for step in range(len(uris)):
                    await self._version(store, uris[(start + step) % len(uris)], version)

        async def write_all() -> None:
            async with anyio.create_task_group() as writers:
                for start in range(4):
                    writers.start_soon(write, start)
            writing.set()

        async def read() -> None:
            nonlocal seen
            while not writing.is_set():
                found = await halves(store, "shared", vectors(X), scope=EVERYTHING, top_k=100)
                assert _whole(found[0]) == _whole(found[1])
                assert set(_whole(found[0])) == set(uris)
                seen += 1
                await anyio.lowlevel.checkpoint()

        with anyio.fail_after(120):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write_all)
                for _ in range(4):
                    tasks.start_soon(read)
        assert seen
        last = await store.search_text("shared", scope=EVERYTHING, top_k=100)
        assert _whole(last) == dict.fromkeys(uris, versions - 1)

    async def test_the_same_document_stored_at_once_is_written_once(self, store: Store) -> None:
        """W09: there is no moment between looking and writing."""
        document, chunks = passages("u:1", "alpha", "beta")
        written: list[bool] = []

        async def write() -> None:
            written.append(await store.replace(document, chunks, vectors(X, Y)))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(6):
                    tasks.start_soon(write)
        assert sorted(written) == [False] * 5 + [True]
        assert await store.count(EVERYTHING) == 2

    async def test_deleting_while_replacing_leaves_all_or_nothing(self, store: Store) -> None:
        """C4: no part of a document stays."""
        document, _ = passages("u:1", "alpha")

        async def write() -> None:
            for version in range(10):
                await self._version(store, "u:1", version)

        async def remove() -> None:
            for _ in range(10):
                await store.delete([document.document_id])

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write)
                tasks.start_soon(remove)
        hits = await store.search_text("shared", scope=EVERYTHING, top_k=100)
        assert len(_whole(hits)) == len(await store.revisions("one"))

    async def _version(self, store: Store, uri: str, version: int) -> None:
        lines = [f"shared version {version} line {n}" for n in range(3 + version % 4)]
        document, chunks = passages(uri, *lines, revision=f"r{version}", metadata={"version": version})
        await store.replace(document, chunks, vectors(*([X] * len(lines))))


def _whole(hits: Sequence[Hit]) -> dict[str, int]:
    """uri -> version; every document must be there with all chunks of one version."""
    found: dict[str, set[tuple[object, int]]] = {}
    for hit in hits:
        found.setdefault(hit.uri, set()).add((hit.chunk.metadata["version"], hit.chunk.index))
    result: dict[str, int] = {}
    for uri, chunks in found.items():
        (version,) = {version for version, _ in chunks}
        assert isinstance(version, int)
        assert {index for _, index in chunks} == set(range(3 + version % 4)), uri
        result[uri] = version
    return result
