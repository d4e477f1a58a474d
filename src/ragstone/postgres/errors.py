"""psycopg's errors as ours: chosen by type and SQLSTATE, never by message text."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from ragstone.errors import StoreBusy, StoreError, StoreFull, StoreIncompatible, StoreUnavailable

_BUSY = (
    pg.SerializationFailure,
    pg.DeadlockDetected,
    pg.LockNotAvailable,
    pg.TooManyConnections,
    pg.OutOfMemory,
    pg.InsufficientResources,
)
_GONE = (pg.AdminShutdown, pg.CrashShutdown, pg.CannotConnectNow, pg.IdleSessionTimeout)


@contextmanager
def translated() -> Generator[None]:
    """Raise what psycopg raises inside as a StoreError, where it is no fault of the code.

    Wrong SQL, broken constraints and the like stay psycopg's own: they are bugs.
    """
    try:
        yield
    except psycopg.Error as error:
        mapped = store_error(error)
        if mapped is None:
            raise
        raise mapped from error


def store_error(error: psycopg.Error) -> StoreError | None:
    """The StoreError that stands for `error`; None when it is a fault of the code."""
    reason = first_line(error)
    if isinstance(error, pg.DiskFull):
        return StoreFull("postgres.disk_full", reason=reason)
    if isinstance(error, (PoolTimeout, TooManyRequests)):
        return StoreBusy("postgres.pool_timeout", reason=reason)
    if isinstance(error, PoolClosed):
        return StoreUnavailable("postgres.closed")
    if isinstance(error, _BUSY):
        return StoreUnavailable("postgres.busy", reason=reason)
    # Without SQLSTATE the server said nothing: the connection itself broke.
    if isinstance(error, _GONE) or (isinstance(error, psycopg.OperationalError) and _is_connection(error)):
        return StoreUnavailable("postgres.connection_lost", reason=reason)
    if isinstance(error, (pg.InsufficientPrivilege, pg.ReadOnlySqlTransaction)):
        return StoreIncompatible("postgres.permission", reason=reason)
    return None


def _is_connection(error: psycopg.OperationalError) -> bool:
    return error.sqlstate is None or error.sqlstate.startswith("08")


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
