"""The only blocking face: any async object, used without `await`.

One event loop runs in a thread of its own, so that blocking code works everywhere, also
inside a running loop such as a notebook's. A stream is read by one task in that loop,
which hands its items over through a queue: the stream's cancel scopes stay in one task.
"""

from __future__ import annotations

import inspect
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

T = TypeVar("T")
_END = object()


class Blocking(Generic[T]):
    """`with Blocking(make) as face`: the methods of what `make` returns, blocking.

    A method that returns an awaitable is awaited; one that returns an async iterator
    becomes an iterator. Leaving the block calls `aclose()` of the object and ends the
    loop; `close()` does the same without a block.
    """

    def __init__(self, make: Callable[[], Awaitable[T] | T] | T) -> None:
        self._portal_owner: AbstractContextManager[BlockingPortal] = start_blocking_portal()
        self._portal = self._portal_owner.__enter__()
        self._open = True
        try:
            # An object that is there already, such as a pipeline, is taken as it is.
            called = cast("Callable[[], Any]", make if callable(make) else lambda: make)
            self._target = cast("T", self._portal.call(_resolved, called))
        except BaseException:
            self._end()
            raise

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return value

        def call(*args: object, **kwargs: object) -> Any:
            result = self._call(lambda: value(*args, **kwargs))
            if isinstance(result, AsyncIterator):
                return BlockingStream(self._portal, cast("AsyncIterator[object]", result))
            return result

        return call

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._target)})

    def _call(self, make: Callable[[], Any]) -> Any:
        """What `make` comes to. When Ctrl-C ends the wait, the work has ended before this returns."""
        scopes: list[anyio.CancelScope] = []
        ended = threading.Event()

        async def run() -> Any:
            try:
                with anyio.CancelScope() as scope:
                    scopes.append(scope)
                    return await _resolved(make)
            finally:
                ended.set()

        def stop() -> None:
            if scopes:
                scopes[0].cancel()
            else:  # it was never begun
                ended.set()

        try:
            return self._portal.call(run)
        except (KeyboardInterrupt, SystemExit):  # SystemExit: a signal asked the program to end
            self._portal.call(stop)
            ended.wait()
            raise

    def __enter__(self) -> Blocking[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the object and end its loop. Calling it again does nothing."""
        if self._open:
            try:
                if (aclose := getattr(self._target, "aclose", None)) is not None:
                    self._portal.call(aclose)
            finally:
                self._end()

    def _end(self) -> None:
        self._open = False
        self._portal_owner.__exit__(None, None, None)


class BlockingStream(Iterator[Any]):
    """Items of an async iterator; other attributes are those of the iterator itself."""

    def __init__(self, portal: BlockingPortal, source: AsyncIterator[object]) -> None:
        self._source = source
        self._items: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._pump: Future[None] = portal.start_task_soon(self._run)

    async def _run(self) -> None:
        try:
            async for item in self._source:
                self._items.put(item)
        finally:
            self._items.put(_END)
            aclose = getattr(self._source, "aclose", None)
            if aclose is not None:
                await aclose()

    def __next__(self) -> Any:
        item = self._items.get()
        if item is not _END:
            return item
        self._items.put(_END)
        if not self._pump.cancelled():
            self._pump.result()
        raise StopIteration

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def close(self) -> None:
        """Stop reading; the task that reads is cancelled."""
        self._pump.cancel()

    def __enter__(self) -> BlockingStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def _resolved(make: Callable[[], Any]) -> Any:
    result = make()
    return await result if inspect.isawaitable(result) else result
