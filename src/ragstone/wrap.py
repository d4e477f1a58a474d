"""Retry, limits and time budgets around any adapter or stage.

    chat = retrying(limited(OpenAIChatModel(...), concurrent=4), attempts=5)
    search = budgeted(search, seconds=3)

What is wrapped keeps its shape: every `async def` and async generator method goes through
the policy, all else (`identity`, `dimension`, `aclose`, ...) passes as it is.
"""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

import anyio

from ragstone.errors import InvalidStage, ProviderTimeout, ProviderUnavailable, Transient

T = TypeVar("T")
Wrapped = TypeVar("Wrapped")


class Policy(Protocol):
    """What is done around a call, and around a stream of items."""

    async def call(self, call: Callable[[], Awaitable[T]]) -> T: ...

    def stream(self, begin: Callable[[], AsyncIterator[T]]) -> AsyncIterator[T]: ...


def retrying(
    inner: Wrapped, *, attempts: int = 3, first_wait: float = 0.5, longest_wait: float = 20.0
) -> Wrapped:
    """Tries again what fails with a `Transient` error; a stream only before its first item.

    Waits a random time of up to `first_wait` seconds, doubled with each attempt (AWS's
    "full jitter"), or as long as the provider asks by Retry-After; when that is longer than
    `longest_wait`, the error is raised at once.
    """
    return around(inner, Retry(attempts=attempts, first_wait=first_wait, longest_wait=longest_wait))


def limited(inner: Wrapped, *, concurrent: int, per_second: float | None = None) -> Wrapped:
    """At most `concurrent` calls at a time, and `per_second` begun in a second; others wait.

    A stream counts until it has ended or was closed.
    """
    return around(inner, Limit(concurrent=concurrent, per_second=per_second))


def budgeted(inner: Wrapped, *, seconds: float) -> Wrapped:
    """Cancels a call, or a whole stream, that takes longer; raises ProviderUnavailable then."""
    return around(inner, Budget(seconds=seconds))


def giving_up(inner: Wrapped) -> Wrapped:
    """Once a call has ended in ProviderTimeout every later one fails with it, without being made.

    For the calls of one answer: it waits for a provider that is silent once, not at every step.
    """
    return around(inner, GiveUp())


def around(inner: Wrapped, policy: Policy) -> Wrapped:
    """`inner`, each of its calls inside `policy`."""
    if hasattr(inner, "aclose"):
        return cast("Wrapped", _Adapter(inner, policy))
    return cast("Wrapped", _through(cast(Any, inner), policy))


@dataclass(frozen=True, kw_only=True)
class Retry:
    """The policy of `retrying`. `sleep` and `draw` are for tests."""

    attempts: int = 3
    first_wait: float = 0.5
    longest_wait: float = 20.0
    sleep: Callable[[float], Awaitable[object]] = anyio.sleep
    draw: Callable[[float, float], float] = random.uniform

    def __post_init__(self) -> None:
        _at_least("attempts", self.attempts, 1)
        _at_least("first_wait", self.first_wait, 0)
        _at_least("longest_wait", self.longest_wait, 0)

    async def call(self, call: Callable[[], Awaitable[T]]) -> T:
        attempt = 1
        while True:
            try:
                return await call()
            except Transient as error:
                wait = self._wait(error, attempt)
                if wait is None:
                    raise
            await self.sleep(wait)
            attempt += 1

    async def stream(self, begin: Callable[[], AsyncIterator[T]]) -> AsyncIterator[T]:
        async def first() -> tuple[AsyncIterator[T], list[T]]:
            items = begin()
            try:
                return items, [await anext(items)]
            except StopAsyncIteration:
                return items, []

        items, got = await self.call(first)
        try:
            for item in got:
                yield item
            async for item in items:
                yield item
        finally:
            await _close(items)

    def _wait(self, error: Transient, attempt: int) -> float | None:
        """Seconds to wait before the next attempt; None when there is to be none."""
        if attempt >= self.attempts:
            return None
        asked = error.values.get("retry_after")
        if isinstance(asked, (int, float)):
            return float(asked) if asked <= self.longest_wait else None
        return self.draw(0.0, min(self.longest_wait, self.first_wait * 2.0 ** (attempt - 1)))


@dataclass(kw_only=True)
class Limit:
    """The policy of `limited`. `sleep` is for tests."""

    concurrent: int
    per_second: float | None = None
    sleep: Callable[[float], Awaitable[object]] = anyio.sleep
    _slots: anyio.Semaphore = field(init=False, repr=False)
    _next: float = field(default=-math.inf, init=False, repr=False)

    def __post_init__(self) -> None:
        _at_least("concurrent", self.concurrent, 1)
        if self.per_second is not None and not (math.isfinite(self.per_second) and self.per_second > 0):
            raise InvalidStage("wrap.value", name="per_second", value=self.per_second, least="> 0")
        self._slots = anyio.Semaphore(self.concurrent)

    async def call(self, call: Callable[[], Awaitable[T]]) -> T:
        async with self._slots:
            await self._turn()
            return await call()

    async def stream(self, begin: Callable[[], AsyncIterator[T]]) -> AsyncIterator[T]:
        async with self._slots:
            await self._turn()
            items = begin()
            try:
                async for item in items:
                    yield item
            finally:
                await _close(items)

    async def _turn(self) -> None:
        """Wait for a place in time; places are given in order."""
        if self.per_second is None:
            return
        now = anyio.current_time()
        mine = max(now, self._next)
        self._next = mine + 1.0 / self.per_second
        if mine > now:
            await self.sleep(mine - now)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The policy of `budgeted`."""

    seconds: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise InvalidStage("wrap.value", name="seconds", value=self.seconds, least="> 0")

    async def call(self, call: Callable[[], Awaitable[T]]) -> T:
        with anyio.move_on_after(self.seconds):
            return await call()
        raise ProviderUnavailable("wrap.late", seconds=self.seconds)

    async def stream(self, begin: Callable[[], AsyncIterator[T]]) -> AsyncIterator[T]:
        end = anyio.current_time() + self.seconds
        items = begin()
        try:
            while True:
                got: list[T] = []
                # A scope must not stay open while the reader holds an item.
                with anyio.move_on_after(max(0.0, end - anyio.current_time())) as scope:
                    try:
                        got.append(await anext(items))
                    except StopAsyncIteration:
                        return
                if scope.cancelled_caught:
                    raise ProviderUnavailable("wrap.late", seconds=self.seconds)
                for item in got:
                    yield item
        finally:
            await _close(items)


class GiveUp:
    """The policy of `giving_up`."""

    def __init__(self) -> None:
        self._error: ProviderTimeout | None = None

    async def call(self, call: Callable[[], Awaitable[T]]) -> T:
        with self._noted():
            return await call()

    async def stream(self, begin: Callable[[], AsyncIterator[T]]) -> AsyncIterator[T]:
        with self._noted():
            items = begin()
            try:
                async for item in items:
                    yield item
            finally:
                await _close(items)

    @contextmanager
    def _noted(self) -> Generator[None]:
        if self._error is not None:
            raise self._error
        try:
            yield
        except ProviderTimeout as error:
            self._error = error
            raise


class _Adapter:
    """Stands in for an adapter: its waiting methods go through the policy."""

    def __init__(self, inner: object, policy: Policy) -> None:
        self._inner = inner
        self._policy = policy

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        return value if name == "aclose" or not callable(value) else _through(value, self._policy)


def _through(function: Callable[..., Any], policy: Policy) -> Callable[..., Any]:
    kind = function if inspect.isroutine(function) else type(function).__call__
    if inspect.isasyncgenfunction(kind):

        async def stream(*args: Any, **options: Any) -> AsyncIterator[Any]:
            items = policy.stream(lambda: function(*args, **options))
            try:
                async for item in items:
                    yield item
            finally:
                await _close(items)

        return stream
    if inspect.iscoroutinefunction(kind):

        async def call(*args: Any, **options: Any) -> Any:
            return await policy.call(lambda: function(*args, **options))

        return call
    return function


async def _close(items: AsyncIterator[Any]) -> None:
    close = cast(Any, getattr(items, "aclose", None))
    if close is not None:
        await close()


def _at_least(name: str, value: float, least: float) -> None:
    if not (math.isfinite(value) and value >= least):
        raise InvalidStage("wrap.value", name=name, value=value, least=f">= {least:g}")
