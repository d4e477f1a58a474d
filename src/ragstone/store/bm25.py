"""What both stores weigh full text with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).
BM25_K1 = 1.2
BM25_B = 0.75

MAX_TERMS = 64
"""Distinct terms of a question that are searched, the first ones: each costs a look-up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextStatistics:
    """What is known beforehand of the bases that are searched: nothing (`chunks` is None) of small ones.

    `chunks` counts their chunks, `mean` is the terms of one on average. A term that more than
    `cap` of them hold is common and weighs as if `cap` did; `common` names those of the question.
    `ranked` is how many rows are worth a look at all their terms.
    """

    ranked: int
    chunks: float | None = None
    mean: float | None = None
    cap: float | None = None
    common: Sequence[str] = ()

    def rows(self, term: str) -> float | None:
        """How many rows the term weighs as, if it is common."""
        return self.cap if term in self.common else None
