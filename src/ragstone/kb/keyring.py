"""Which caller a key stands for, and how often it may ask: what every request needs to know."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from psycopg.rows import class_row

from ragstone.errors import RateLimited, Unauthorized
from ragstone.kb import keys
from ragstone.kb.bases import QUERIES
from ragstone.kb.caller import AccessRole, Caller
from ragstone.postgres.pool import Database

REMEMBERED_S = 2.0
"""A key that was revoked, or ran out, is refused by every process within this time."""
_MOST_REMEMBERED = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    key_id: str
    role: AccessRole
    bases: list[str] | None
    per_minute: int | None
    revoked: bool
    expired: bool
    untold: bool


@dataclass(frozen=True, slots=True)
class _Seen:
    row: _Row | None
    at: float


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Requests that may be made at once, as of `at`; it fills up with time."""

    tokens: float
    at: float


class Keyring:
    """Keys as this process knows them. The limit of a key is for each process by itself."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._seen: OrderedDict[bytes, _Seen] = OrderedDict()
        self._buckets: dict[str, _Bucket] = {}
        self._any: bool = False
        self._any_until = -math.inf

    @classmethod
    async def open(cls, database: Database) -> Keyring:
        keyring = cls(database)
        await keyring.wanted()
        return keyring

    async def wanted(self) -> bool:
        """Whether a key was ever made: then nobody comes in without one."""
        if not self._any and self._clock() >= self._any_until:
            self._any = await keys.made_any(self._database)
            self._any_until = self._clock() + REMEMBERED_S
        return self._any

    def forget(self) -> None:
        """Look keys up anew: this process has changed them."""
        self._seen.clear()
        self._any_until = -math.inf

    async def caller(self, key: str) -> Caller:
        """Whom the key stands for; counts as one request of it.

        Raises:
            Unauthorized: no such key, or it was revoked or has expired. RateLimited: too many requests.
        """
        row = await self._row(key) if keys.well_formed(key) else None
        if row is None:
            raise Unauthorized("access.key_unknown")
        if row.revoked or row.expired:
            raise Unauthorized("access.key_revoked" if row.revoked else "access.key_expired")
        if row.per_minute is not None:
            self._take(row.key_id, row.per_minute)
        bases = None if row.bases is None else frozenset(row.bases)
        return Caller(key_id=row.key_id, role=row.role, bases=bases)

    async def _row(self, key: str) -> _Row | None:
        key_hash = keys.hashed(key)
        seen = self._seen.get(key_hash)
        if seen is None or self._clock() - seen.at >= REMEMBERED_S:
            seen = _Seen(await self._read(key_hash), self._clock())
            self._seen[key_hash] = seen
            self._seen.move_to_end(key_hash)
            while len(self._seen) > _MOST_REMEMBERED:
                self._seen.popitem(last=False)
        return seen.row

    async def _read(self, key_hash: bytes) -> _Row | None:
        """The row of a key; that it is in use is written at most once a minute."""
        async with self._database.connection() as connection:
            async with connection.cursor(row_factory=class_row(_Row)) as cursor:
                row = await (await cursor.execute(QUERIES["key_by_hash"], {"key_hash": key_hash})).fetchone()
            if row is not None and row.untold and not (row.revoked or row.expired):
                await connection.execute(QUERIES["touch_key"], {"key_id": row.key_id})
        return row

    def _take(self, key_id: str, per_minute: int) -> None:
        """One request of this key, out of a bucket that holds those of a minute."""
        now, rate = self._clock(), per_minute / 60
        bucket = self._buckets.get(key_id, _Bucket(per_minute, now))
        tokens = min(float(per_minute), bucket.tokens + (now - bucket.at) * rate)
        if tokens < 1:
            self._buckets[key_id] = replace(bucket, tokens=tokens, at=now)
            raise RateLimited(
                "access.rate_limited", limit=per_minute, seconds=max(1, math.ceil((1 - tokens) / rate))
            )
        self._buckets[key_id] = _Bucket(tokens - 1, now)
