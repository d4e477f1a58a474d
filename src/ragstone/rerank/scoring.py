"""From a server's list of results to one score a text.

`nan` means that a text was not judged: it is blank and was not sent, or the server left
it out. Results that name no text of the request are ignored and counted in the trace.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from ragstone.errors import InvalidStage, ProviderError
from ragstone.trace import note


def checked_batch_size(size: int) -> int:
    if size < 1:
        raise InvalidStage("rerank.batch_size", value=size)
    return size


async def in_batches(
    texts: Sequence[str], size: int, score: Callable[[list[str]], Awaitable[list[float]]]
) -> list[float]:
    """The scores of all texts, `size` a request; blank ones are not sent (decision: never to a model)."""
    scores = [math.nan] * len(texts)
    rows = [row for row, text in enumerate(texts) if text.strip()]
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        for row, value in zip(some, await score([clean(texts[row]) for row in some]), strict=True):
            scores[row] = value
    return scores


def placed(results: object, count: int, *, name: str) -> list[float]:
    """Results of the form {"index", "relevance_score" or "score"} as one score a text.

    Raises:
        ProviderError: not a list, or no result that names one of the `count` texts with a
            finite score.
    """
    if not isinstance(results, list):
        raise ProviderError("rerank.wrong_answer", name=name, reason="no list of results")
    scores = [math.nan] * count
    ignored = 0
    for result in cast("list[object]", results):
        named = fields(result)
        index: object = named.get("index")
        row = index if isinstance(index, int) and not isinstance(index, bool) else -1
        value = number(named.get("relevance_score", named.get("score")))
        if 0 <= row < count and value is not None and math.isnan(scores[row]):
            scores[row] = value
        else:
            ignored += 1
    if ignored:
        note(rerank_ignored=ignored)
    if all(math.isnan(value) for value in scores):
        raise ProviderError("rerank.wrong_answer", name=name, reason=f"no score for {count} texts")
    return scores


def number(value: object) -> float | None:
    """A finite number as float; None for whatever else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def fields(value: object) -> Mapping[str, Any]:
    """A JSON object; an empty one in place of whatever else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def clean(text: str) -> str:
    """Without what JSON or the servers' decoders refuse: NUL and lone surrogates."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
