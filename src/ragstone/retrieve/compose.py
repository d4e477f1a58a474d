"""Retrievers made of retrievers. Any `async def` from Query to hits is one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import anyio

from ragstone.errors import InvalidStage, ProviderUnavailable
from ragstone.protocols import Expander, Retriever
from ragstone.trace import note
from ragstone.types import Hit, Query


def checked_seconds(seconds: float) -> float:
    """`seconds` if it is a time one can wait for; else `InvalidStage`."""
    if not (math.isfinite(seconds) and seconds > 0):
        raise InvalidStage("retrieve.seconds", value=seconds)
    return seconds


def within(retriever: Retriever, seconds: float) -> Retriever:
    """The same retriever with a time budget: it is cancelled when that has passed.

    Raises:
        InvalidStage: `seconds` is not above 0. ProviderUnavailable: when called, late.
    """
    checked_seconds(seconds)

    async def timed(query: Query) -> list[Hit]:
        with anyio.move_on_after(seconds):
            return await retriever(query)
        raise ProviderUnavailable("retrieve.late", seconds=seconds)

    return timed


def any_hit(query: Query, hits: Sequence[Hit]) -> bool:
    return bool(hits)


def first_effective(
    retriever: Retriever,
    candidates: Expander,
    *,
    effective: Callable[[Query, Sequence[Hit]], bool] = any_hit,
) -> Retriever:
    """Tries candidate questions in order; the first with an effective search wins (row A55).

    Whether a search was effective is judged on the question as it was asked, for every
    candidate (row W14). None effective gives no hits.
    """

    async def retrieve(query: Query) -> list[Hit]:
        for tried, candidate in enumerate(await candidates(query), start=1):
            hits = await retriever(candidate)
            if effective(query, hits):
                note(tried=tried)
                return hits
        note(tried="all, in vain")
        return []

    return retrieve
