"""Which of the ranked hits go on: threshold, top-n, token budget, duplicates.

Selectors keep the order and the scores of what they keep. The pipeline's trace tells
how many hits came in and went out of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ragstone.embed.estimate import EstimatedTokenizer
from ragstone.errors import InvalidStage
from ragstone.protocols import Tokenizer
from ragstone.types import Hit, Query, checked_top_k


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """Keeps hits whose latest score on `scale` is at least `minimum`.

    A hit without a score on that scale was not judged by it: found by full text alone it
    has no cosine. It stays, unless `unscored` is False. A score that is not a number
    never passes.

    Raises:
        InvalidStage: `minimum` is not a finite number.
    """

    scale: str
    minimum: float
    unscored: bool = True

    def __post_init__(self) -> None:
        if not math.isfinite(self.minimum):
            raise InvalidStage("select.minimum", scale=self.scale, value=self.minimum)

    async def __call__(self, query: Query, hits: list[Hit]) -> list[Hit]:
        return [hit for hit in hits if self._passes(hit.on(self.scale))]

    def _passes(self, value: float | None) -> bool:
        return self.unscored if value is None else value >= self.minimum


@dataclass(frozen=True, slots=True)
class TopN:
    """Keeps the first `n` hits.

    Raises:
        InvalidQuery: `n` outside 1 to 1,000.
    """

    n: int

    def __post_init__(self) -> None:
        checked_top_k(self.n)

    async def __call__(self, query: Query, hits: list[Hit]) -> list[Hit]:
        return hits[: self.n]


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Keeps the best hits whose passages together have at most `tokens` tokens.

    The lowest go first. A passage that alone is over the budget is left out and the
    ones behind it still have their chance. Context and text of a chunk count, as
    `tokenizer` counts them; the default is an estimate on the high side.

    Raises:
        InvalidStage: `tokens` is no whole number of at least 1.
    """

    tokens: int
    tokenizer: Tokenizer = field(default_factory=EstimatedTokenizer)

    def __post_init__(self) -> None:
        if isinstance(self.tokens, bool) or not isinstance(self.tokens, int) or self.tokens < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidStage("select.tokens", value=self.tokens)

    async def __call__(self, query: Query, hits: list[Hit]) -> list[Hit]:
        return self.within(hits)

    def within(self, hits: Sequence[Hit]) -> list[Hit]:
        kept: list[Hit] = []
        left = self.tokens
        for hit in hits:
            size = self.tokenizer.count(hit.chunk.embedding_text)
            if size > self.tokens:
                continue
            left -= size
            if left < 0:
                break
            kept.append(hit)
        return kept


async def dedupe(query: Query, hits: list[Hit]) -> list[Hit]:
    """Keeps the first of hits with the same chunk id or the same text."""
    ids: set[str] = set()
    texts: set[str] = set()
    kept: list[Hit] = []
    for hit in hits:
        if hit.chunk.chunk_id not in ids and hit.chunk.text not in texts:
            kept.append(hit)
        ids.add(hit.chunk.chunk_id)
        texts.add(hit.chunk.text)
    return kept
