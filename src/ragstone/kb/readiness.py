"""Whether this process can do its work now: what it needs, each asked by itself and within seconds."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import anyio

from ragstone.errors import RagstoneError, StoreFull
from ragstone.kb.bases import QUERIES
from ragstone.kb.bootstrap import App

State: TypeAlias = Literal["ok", "waiting", "failed"]
Status: TypeAlias = Literal["ready", "degraded", "unready"]

WITHIN_S = 3.0
"""What has not answered by then is `waiting`."""
_REMEMBERED_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartState:
    """How a part is; `code` is the error's, its sentence is for `ragstone doctor` and the log."""

    state: State
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """`unready`: send nobody here. `degraded`: questions are answered, something else cannot be done."""

    status: Status
    parts: Mapping[str, PartState]


class Probe:
    """Asks the parts at most once a second, however many ask it."""

    def __init__(self, parts: App) -> None:
        self._parts = parts
        self._lock = anyio.Lock()
        self._last: Readiness | None = None
        self._at = 0.0

    async def __call__(self) -> Readiness:
        async with self._lock:
            if self._last is None or time.monotonic() - self._at >= _REMEMBERED_S:
                self._last = await self._ask()
                self._at = time.monotonic()
            return self._last

    async def _ask(self) -> Readiness:
        states: dict[str, PartState] = {}

        async def ask(name: str, check: Callable[[], Awaitable[object]]) -> None:
            states[name] = await _state(check)

        checks = {
            "database": self._database,
            "wakeups": self._wakeups,
            "blobs": self._blobs,
            "models": self._parts.embedder,
        }
        async with anyio.create_task_group() as tasks:
            for name, check in checks.items():
                tasks.start_soon(ask, name, check)
        return Readiness(status=_status(states), parts={name: states[name] for name in checks})

    async def _database(self) -> None:
        database = await self._parts.database()
        async with database.connection() as connection:
            await connection.execute(QUERIES["usable_key"])

    async def _wakeups(self) -> None:
        await (await self._parts.wakeup()).check()

    async def _blobs(self) -> None:
        await (await self._parts.blobs()).check()
        async with (await self._parts.database()).connection() as connection:
            if await (await connection.execute(QUERIES["waits_for_room"])).fetchone():
                raise StoreFull("blob.no_room")


async def _state(check: Callable[[], Awaitable[object]]) -> PartState:
    try:
        with anyio.fail_after(WITHIN_S):
            await check()
    except TimeoutError:
        return PartState(state="waiting")
    except RagstoneError as error:
        return PartState(state="failed", code=error.code)
    return PartState(state="ok")


def _status(states: Mapping[str, PartState]) -> Status:
    """Without a model words are still searched; while it is being read, others answer better."""
    if states["database"].state != "ok" or states["models"].state == "waiting":
        return "unready"
    return "ready" if all(part.state == "ok" for part in states.values()) else "degraded"
