"""Vector indexes outside PostgreSQL, one file a server; what all of them refuse and share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from ragstone.errors import ModelMismatch
from ragstone.store.checks import check_vectors
from ragstone.types import Vectors, digest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")


def check_rows(
    collection: str, ids: Sequence[str], vectors: NDArray[np.float32], bases: Sequence[str]
) -> None:
    """Refuse vectors that are not one finite row for each id. Raises ModelMismatch."""
    check_vectors(Vectors(model=collection, values=vectors), count=len(ids))
    if len(bases) != len(ids):
        raise ModelMismatch("store.vector_count", count=len(ids), shape=str((len(bases),)), model=collection)


def check_dimension(collection: str, found: int, stored: int) -> None:
    """Refuse a vector of another dimension than the collection's. Raises ModelMismatch."""
    if found != stored:
        raise ModelMismatch("store.dimension", model=collection, found=found, stored=stored)


def base_key(base_id: str) -> str:
    """A base's id as letters and digits, which no filter language can read as anything else."""
    return digest("base", base_id)


def batches(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
