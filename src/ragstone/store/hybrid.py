"""How a store makes one ranking of two, before it reads a passage (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragstone.fuse import by_tokens
from ragstone.protocols import Fuser
from ragstone.trace import note
from ragstone.types import Chunk, Hit, Score, Vectors, checked_top_k

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class HybridRule:
    """What `Store.search_hybrid` was asked to do with both rankings."""

    vectors: Vectors
    fuse: Fuser
    top_k: int
    compared: int

    def __post_init__(self) -> None:
        checked_top_k(self.top_k)

    def fused(self, nearest: Sequence[Hit], matching: Sequence[Hit]) -> list[Hit]:
        note(vector=len(nearest), text=len(matching))
        return self.fuse((nearest, matching))

    def to_compare(self, hits: Sequence[Hit]) -> Sequence[Hit]:
        """The best hits, which tokens may put in another order; none where that was not asked for."""
        if not self.compared or not self.vectors.token_vectors or not hits or not hits[0].scores:
            return ()
        return hits[: max(self.compared, self.top_k)] if hits[0].scores[-1].scale == "hybrid" else ()

    def in_order(self, hits: Sequence[Hit], tokens: Sequence[NDArray[np.generic] | None]) -> list[Hit]:
        """`to_compare` in the order that the tokens of their passages give. CPU work: for a thread."""
        (question,) = self.vectors.token_vectors
        return by_tokens(question, hits, tokens)


def unread(chunk_id: str, document_id: str, index: int, *scores: Score) -> Hit:
    """A hit as a ranking knows it: which chunk, not what it says."""
    chunk = Chunk(chunk_id=chunk_id, document_id=document_id, index=index, text="", start=0, end=0)
    return Hit(chunk=chunk, uri="", title="", scores=scores)
