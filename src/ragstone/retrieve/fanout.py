"""Several searches side by side, of which some may fail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import anyio

from ragstone.errors import InputError, InvalidStage, first_error
from ragstone.protocols import Retriever
from ragstone.retrieve.compose import within
from ragstone.trace import degrade, note
from ragstone.types import Hit, Query


async def side_by_side(
    calls: Sequence[tuple[Query, Retriever]], *, concurrency: int, seconds: float
) -> list[list[Hit]]:
    """The hits of each call, in the order of the calls, at most `concurrency` at once (row W22).

    A call that fails or takes longer than `seconds` gives no hits, and the answer is
    marked `retriever_failed`. When none succeeds the first failure is raised. A failure
    that the caller has to mend (`InputError`) is raised at once, and the others are
    cancelled. A hit whose score is no finite number goes to the end of its ranking.
    """
    found: list[list[Hit]] = [[] for _ in calls]
    failures: dict[int, Exception] = {}
    waiting = iter(enumerate(calls))

    async def search() -> None:
        """Takes the next call until there is none."""
        for index, (query, retriever) in waiting:
            try:
                found[index] = _finite_first(_hits(await within(retriever, seconds)(query), retriever))
            except InputError:
                raise
            except Exception as error:  # noqa: BLE001 (a retriever may be anyone's code: the others go on)
                failures[index] = error

    try:
        async with anyio.create_task_group() as tasks:
            for _ in range(min(concurrency, len(calls))):
                tasks.start_soon(search)
    except BaseExceptionGroup as group:
        raise first_error(group) from group
    if failures and len(failures) == len(calls):
        raise failures[min(failures)]
    if failures:
        note(failed={index: f"{type(error).__name__}: {error}" for index, error in sorted(failures.items())})
        degrade("retriever_failed")
    return found


def _hits(found: object, retriever: Retriever) -> list[Hit]:
    """What a retriever gave, if it is hits."""
    items = cast("Sequence[object]", found) if isinstance(found, (list, tuple)) else (found,)
    if all(isinstance(item, Hit) for item in items):
        return cast("list[Hit]", list(items))
    name = getattr(retriever, "__name__", type(retriever).__name__)
    raise InvalidStage("retrieve.not_hits", name=name, value=repr(items)[:80])


def _finite_first(hits: Sequence[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: not math.isfinite(hit.score))
