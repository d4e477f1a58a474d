"""What every stage did, as data.

The pipeline opens a `Trace` and runs each stage inside `trace.stage(name)`, one that
streams inside `trace.stream(name, items)`. A stage says
what is worth knowing with `note(...)`, and `degrade(code)` when it could not work as
configured; outside of a pipeline both do nothing.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from ragstone.types import Step, Usage

T = TypeVar("T")

_current: ContextVar[tuple[Trace, dict[str, object]] | None] = ContextVar("ragstone_trace", default=None)


class Trace:
    """The steps of one run in order, the codes of what was degraded, the tokens that stages used."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.degraded: list[str] = []
        self.usage = Usage()

    @contextmanager
    def stage(self, name: str) -> Generator[dict[str, object], None, None]:
        """Time a stage; the dict it yields becomes the step's detail. Do not yield to a caller inside."""
        detail: dict[str, object] = {}
        token = _current.set((self, detail))
        started = time.perf_counter()
        try:
            yield detail
        finally:
            _current.reset(token)
            self.steps.append(Step(stage=name, seconds=time.perf_counter() - started, detail=detail))

    async def stream(self, name: str, items: AsyncIterator[T]) -> AsyncGenerator[T, None]:
        """`items` as a stage: what makes them may `note` and `degrade`, whoever reads them.

        A context variable set around a `yield` would leak to the reader and be missing in
        the next step, so it is set anew for each item. The step is there when the items
        have ended, also by an error or because the reader left.
        """
        detail: dict[str, object] = {}
        started = time.perf_counter()
        try:
            while True:
                token = _current.set((self, detail))
                try:
                    item = await anext(items)
                except StopAsyncIteration:
                    return
                finally:
                    _current.reset(token)
                yield item
        except Exception as error:
            detail["failed"] = type(error).__name__
            raise
        finally:
            self.steps.append(Step(stage=name, seconds=time.perf_counter() - started, detail=detail))

    def degrade(self, code: str) -> None:
        if code not in self.degraded:
            self.degraded.append(code)


def note(**facts: object) -> None:
    """Add facts to the detail of the running stage."""
    if (current := _current.get()) is not None:
        current[1].update(facts)


def degrade(code: str) -> None:
    """Mark the running pipeline as degraded, such as `embedder_failed`."""
    if (current := _current.get()) is not None:
        current[0].degrade(code)


def spend(usage: Usage | None) -> None:
    """Count tokens that a stage's model used."""
    if usage is not None and (current := _current.get()) is not None:
        current[0].usage += usage
