"""A second, closer look at the best hits: the funnel from many candidates to few passages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import anyio

from ragstone.errors import InvalidStage, ModelError, ProviderError
from ragstone.protocols import Reranker
from ragstone.trace import degrade, note
from ragstone.types import Hit, Query, Score, checked_top_k

RERANK_SECONDS = 15.0
"""What reranking may take, tries again included, before the fused order is used."""


@dataclass(frozen=True, slots=True)
class Rerank:
    """Keeps the `top_n` best of the first `candidates` hits whose new score is at least `min_score`.

    The new scores have the scale `rerank:<identity>`. When the reranker fails, is late or
    gives scores that cannot be used, the fused order stands and the answer is marked
    `reranker_failed` (row W24). A passage that was not judged (blank, or left out by the
    reranker) stands last, and never passes a `min_score`; None keeps all. Nothing left
    means that the question is refused.

    Raises:
        InvalidQuery: `top_n` or `candidates` outside 1 to 1,000. InvalidStage: fewer
            candidates than are kept, or a `min_score` that is no finite number.
    """

    reranker: Reranker
    top_n: int = 5
    min_score: float | None = 0.1
    candidates: int = 20
    seconds: float = RERANK_SECONDS

    def __post_init__(self) -> None:
        if checked_top_k(self.candidates) < checked_top_k(self.top_n):
            raise InvalidStage("rerank.funnel", top_n=self.top_n, candidates=self.candidates)
        if self.min_score is not None and not math.isfinite(self.min_score):
            raise InvalidStage("rerank.min_score", value=self.min_score)

    async def __call__(self, query: Query, hits: list[Hit]) -> list[Hit]:
        candidates = hits[: self.candidates]
        readable = [hit for hit in candidates if hit.chunk.embedding_text.strip()]
        if not readable:
            return []
        try:
            with anyio.fail_after(self.seconds):
                scores = await self.reranker.score(query.text, [hit.chunk.embedding_text for hit in readable])
        except (ProviderError, ModelError, TimeoutError, OSError) as error:
            return self._failed(candidates, type(error).__name__)
        if len(scores) != len(readable):
            return self._failed(candidates, f"{len(scores)} scores for {len(readable)} passages")
        if not any(math.isfinite(score) for score in scores):
            return self._failed(candidates, "no finite score")
        return self._ranked(candidates, readable, scores)

    def _failed(self, candidates: list[Hit], reason: str) -> list[Hit]:
        note(reranker_failed=reason)
        degrade("reranker_failed")
        return candidates[: self.top_n]

    def _ranked(self, candidates: list[Hit], readable: list[Hit], scores: Sequence[float]) -> list[Hit]:
        judged = [
            (hit, float(score)) for hit, score in zip(readable, scores, strict=True) if math.isfinite(score)
        ]
        note(candidates=len(candidates), judged=len(judged))
        # Sorting is stable: what is equal stays in the fused order.
        judged.sort(key=lambda pair: -pair[1])
        scale = f"rerank:{self.reranker.identity}"
        ranked = [
            hit.scored(Score(stage="rerank", scale=scale, value=score, rank=rank))
            for rank, (hit, score) in enumerate(judged, start=1)
        ]
        if self.min_score is None:
            known = {hit.chunk.chunk_id for hit in ranked}
            ranked += [hit for hit in candidates if hit.chunk.chunk_id not in known]
        else:
            ranked = [hit for hit in ranked if hit.score >= self.min_score]
        return ranked[: self.top_n]
