"""A vector index in memory: the reference for what one must do, and a stand-in for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ragstone.store.index import check_dimension, check_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray


class MemoryVectorIndex:
    """Implements `protocols.VectorIndex`, exactly. `identity` tells several apart."""

    def __init__(self, identity: str = "memory") -> None:
        self._identity = identity
        self._collections: dict[str, dict[str, tuple[str, NDArray[np.float32]]]] = {}

    @property
    def identity(self) -> str:
        return self._identity

    async def put(
        self, collection: str, ids: Sequence[str], vectors: NDArray[np.float32], *, bases: Sequence[str]
    ) -> None:
        check_rows(collection, ids, vectors, bases)
        held = self._collections.setdefault(collection, {})
        self._check_dimension(collection, vectors.shape[1])
        for chunk_id, vector, base_id in zip(ids, vectors, bases, strict=True):
            held[chunk_id] = (base_id, vector.copy())

    async def drop(self, collection: str, ids: Sequence[str]) -> None:
        for chunk_id in ids:
            self._collections.get(collection, {}).pop(chunk_id, None)

    async def search(
        self, collection: str, vector: NDArray[np.float32], *, bases: Sequence[str] | None, top_k: int
    ) -> list[str]:
        check_rows(collection, ["question"], vector[None], ["any"])
        self._check_dimension(collection, vector.shape[0])
        scores = {
            chunk_id: float(held @ vector)
            for chunk_id, (base_id, held) in self._collections.get(collection, {}).items()
            if bases is None or base_id in bases
        }
        return sorted(scores, key=lambda chunk_id: -scores[chunk_id])[:top_k]

    async def clear(self, collection: str) -> None:
        self._collections.pop(collection, None)

    async def aclose(self) -> None:
        """Nothing is open; what was put stays, as it would in a server."""

    def held(self) -> dict[str, set[str]]:
        """Collection -> the ids in it."""
        return {name: set(rows) for name, rows in self._collections.items()}

    def _check_dimension(self, collection: str, found: int) -> None:
        held = self._collections.get(collection)
        if held:
            check_dimension(collection, found, next(iter(held.values()))[1].shape[0])
