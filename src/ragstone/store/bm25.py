"""What both stores weigh full text with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).
BM25_K1 = 1.2
BM25_B = 0.75

MAX_TERMS = 64
"""Distinct terms of a question that are searched, the first ones: each costs a look-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextStatistics:
    """What is known beforehand: nothing (`chunks` is None) of a small collection.

    `chunks` counts all chunks, `mean` is their terms on average, `common` the rows of each
    common term. `ranked` is how many rows are worth a look at all their terms.
    """

    ranked: int
    chunks: float | None = None
    mean: float | None = None
    common: Mapping[str, float] = field(default_factory=dict[str, float])

    def rows(self, term: str) -> float | None:
        """How many rows hold the term, if it is common."""
        return self.common.get(term)
