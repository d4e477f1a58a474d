"""Search a store: by vector, by text, or by both."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ragstone.errors import InvalidQuery, InvalidStage, ModelMismatch, ModelUnavailable, ProviderError
from ragstone.fuse import hybrid
from ragstone.protocols import Embedder, Fuser, Store
from ragstone.trace import degrade
from ragstone.types import Hit, Query, Scope, Vectors, checked_top_k

COMPARED = 50
"""With 30, recall@10 across languages is 0.01 lower; with 100 each search reads 0.5 MB more."""

SearchMode: TypeAlias = Literal["hybrid", "vector", "text"]

_RANGES: Mapping[SearchMode, tuple[float, float]] = {
    "hybrid": (0.0, 1.0),
    "vector": (-1.0, 1.0),
    "text": (0.0, sys.float_info.max),
}
"""What a score of a mode can be; a threshold outside would keep all or nothing."""


@dataclass(frozen=True, kw_only=True)
class StoreRetriever:
    """Finds chunks in `store` within `scope` and the query's own scope: what both allow.

    `top_k`, `min_score` and `scope` are values, or functions of the question (rows A44,
    A48): `scope=lambda query: Scope(filter=parse(f"owner == '{...}'"))`.

    `hybrid` takes `candidates` hits from each side and fuses them with `fuse`: meaning
    and words, each by what it is worth for this question (docs/hybrid.md). `fuse` sees ids
    and scores; text and metadata are read of the best hits alone. Where the
    embedding model gives token vectors, the best `compared` hits (and no fewer than
    `top_k`) are then compared token by token and take the scale `late`; 0 leaves that
    out, and so does a `fuse` whose scale is not `hybrid`. When the
    embedding model cannot answer, the search goes on by text alone and is marked
    `embedder_failed`; where bases hold vectors of another model, `other_model`.

    `min_score` acts on the scale of the mode's result: `late` or `hybrid`, `cosine` or
    `text`. A hybrid search that goes on by text has no such scores, and nothing is left out then.

    Raises:
        InvalidQuery: top-k or candidates outside 1 to 1,000; a min-score that is no number, or outside
            -1 to 1 for `vector` and 0 to 1 for `hybrid`. At construction, or when a
            function gives it.
        StoreError: the store cannot be searched.
    """

    store: Store
    embedder: Embedder | None
    mode: SearchMode = "hybrid"
    top_k: int | Callable[[Query], int] = 10
    candidates: int = 100
    compared: int = COMPARED
    min_score: float | Callable[[Query], float | None] | None = None
    scope: Scope | Callable[[Query], Scope] = field(default_factory=Scope)
    fuse: Fuser = hybrid

    def __post_init__(self) -> None:
        if self.mode not in _RANGES:
            raise InvalidStage("retrieve.mode", mode=self.mode)
        if not callable(self.top_k):
            checked_top_k(self.top_k)
        checked_top_k(self.candidates)
        if self.mode != "text" and self.embedder is None:
            raise InvalidStage("retrieve.no_embedder", mode=self.mode)
        if not callable(self.min_score):
            self._checked(self.min_score)

    async def __call__(self, query: Query) -> list[Hit]:
        scope = (self.scope(query) if callable(self.scope) else self.scope) & query.scope
        top_k = checked_top_k(self.top_k(query) if callable(self.top_k) else self.top_k)
        min_score = self._checked(self.min_score(query) if callable(self.min_score) else self.min_score)
        if self.mode == "text":
            hits = await self.store.search_text(query.text, scope=scope, top_k=top_k)
        elif (vectors := await self._embedded(query)) is None:
            return await self.store.search_text(query.text, scope=scope, top_k=top_k)
        elif self.mode == "vector":
            hits = await self.store.search_vector(vectors, scope=scope, top_k=top_k)
        else:
            try:
                hits = await self.store.search_hybrid(
                    query.text,
                    vectors,
                    scope=scope,
                    top_k=top_k,
                    fuse=self.fuse,
                    candidates=max(self.candidates, top_k),
                    compared=self.compared,
                )
            except ModelMismatch as error:
                if error.code != "store.model":  # vectors that no store can compare
                    raise
                degrade("other_model")
                return await self.store.search_text(query.text, scope=scope, top_k=top_k)
        if min_score is not None:
            hits = [hit for hit in hits if hit.score >= min_score]
        return hits

    def _checked(self, min_score: float | None) -> float | None:
        if min_score is None:
            return None
        low, high = _RANGES[self.mode]
        number = isinstance(min_score, (int, float)) and not isinstance(min_score, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not (number and low <= min_score <= high):
            raise InvalidQuery("retrieve.min_score", value=min_score, mode=self.mode, low=low, high=high)
        return min_score

    async def _embedded(self, query: Query) -> Vectors | None:
        assert self.embedder is not None  # checked when built
        try:
            return await self.embedder.embed_queries([query.text])
        except (ProviderError, ModelUnavailable):
            if self.mode == "vector":
                raise
            degrade("embedder_failed")
            return None
