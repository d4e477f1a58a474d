"""Which of the ranked hits go on, and in which order: threshold, top-n, token budget, duplicates,
variety, ends first. For those that ask the store see `widen`.

Selectors keep the order and the scores of what they keep. The pipeline's trace tells
how many hits came in and went out of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ragstone.embed.estimate import EstimatedTokenizer
from ragstone.errors import InvalidStage
from ragstone.protocols import Tokenizer
from ragstone.terms import analyze
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


async def first(query: Query, hits: list[Hit]) -> list[Hit]:
    """Keeps the first hit; nothing of nothing (row W04)."""
    return hits[:1]


async def ends_first(query: Query, hits: list[Hit]) -> list[Hit]:
    """The best at the beginning and the end, the least good in the middle: 1 3 5 6 4 2.

    Models read the middle of a long context worst (Liu et al. 2023, "Lost in the Middle").
    """
    return [*hits[::2], *reversed(hits[1::2])]


@dataclass(frozen=True, slots=True)
class MMR:
    """Keeps `n` hits that are good and unlike each other: maximal marginal relevance.

    Each time the one with the greatest balance * relevance - (1 - balance) * likeness to
    those chosen (Carbonell and Goldstein 1998). Relevance is the latest score, scaled to
    the least and greatest of the hits; a hit without a finite score has none. `balance` 1
    looks at relevance only, 0 at variety only. `likeness` of two hits is from 0 to 1; by
    default the share of search terms they have in common.

    Raises:
        InvalidQuery: `n` outside 1 to 1,000. InvalidStage: `balance` outside 0 to 1.
    """

    n: int
    balance: float = 0.7
    likeness: Callable[[Hit, Hit], float] | None = None

    def __post_init__(self) -> None:
        checked_top_k(self.n)
        if not 0.0 <= self.balance <= 1.0:
            raise InvalidStage("select.balance", value=self.balance)

    async def __call__(self, query: Query, hits: list[Hit]) -> list[Hit]:
        relevance, alike = _relevance(hits), self._likeness(hits)
        nearest = [0.0] * len(hits)
        left = list(range(len(hits)))
        kept: list[Hit] = []
        while left and len(kept) < self.n:
            # max() takes the first of equals: the order of the hits.
            best = max(left, key=lambda i: self.balance * relevance[i] - (1 - self.balance) * nearest[i])
            left.remove(best)
            kept.append(hits[best])
            if len(kept) < self.n:
                for i in left:
                    nearest[i] = max(nearest[i], alike(best, i))
        return kept

    def _likeness(self, hits: Sequence[Hit]) -> Callable[[int, int], float]:
        if (given := self.likeness) is not None:
            return lambda one, other: given(hits[one], hits[other])
        terms = [frozenset(analyze(hit.chunk.text)) for hit in hits]
        return lambda one, other: len(terms[one] & terms[other]) / max(1, len(terms[one] | terms[other]))


def _relevance(hits: Sequence[Hit]) -> list[float]:
    """The latest scores as 0 to 1; halved first, so that their difference stays finite."""
    values = [hit.score / 2 if hit.scores and math.isfinite(hit.score) else None for hit in hits]
    finite = [value for value in values if value is not None]
    least, greatest = min(finite, default=0.0), max(finite, default=0.0)
    span = greatest - least
    return [0.0 if value is None else (value - least) / span if span > 0 else 1.0 for value in values]


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
