"""psycopg's errors as ours, by type and SQLSTATE."""

from __future__ import annotations

import pytest

pytest.importorskip("psycopg")

import psycopg
from psycopg import errors as pg
from psycopg_pool import PoolTimeout, TooManyRequests

from ragstone.errors import StoreFull, StoreIncompatible, StoreUnavailable, Transient
from ragstone.postgres.errors import store_error, translated


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (pg.DiskFull("x"), StoreFull),
        (pg.AdminShutdown("x"), StoreUnavailable),
        (pg.CrashShutdown("x"), StoreUnavailable),
        (pg.CannotConnectNow("x"), StoreUnavailable),
        (pg.TooManyConnections("x"), StoreUnavailable),
        (pg.ConnectionFailure("x"), StoreUnavailable),
        (pg.SerializationFailure("x"), StoreUnavailable),
        (pg.DeadlockDetected("x"), StoreUnavailable),
        (pg.LockNotAvailable("x"), StoreUnavailable),
        (psycopg.OperationalError("server closed the connection"), StoreUnavailable),
        (PoolTimeout("x"), StoreUnavailable),
        (TooManyRequests("x"), StoreUnavailable),
        (pg.InsufficientPrivilege("x"), StoreIncompatible),
        (pg.ReadOnlySqlTransaction("x"), StoreIncompatible),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_the_code_is_not_to_blame_for_gets_a_type_of_ours(
    error: Exception, kind: type[Exception]
) -> None:
    with pytest.raises(kind) as caught, translated():
        raise error

    assert caught.value.__cause__ is error
    assert isinstance(caught.value, Transient) == (kind is StoreUnavailable)


@pytest.mark.parametrize("kind", [pg.UniqueViolation, pg.UndefinedTable, pg.SyntaxError, pg.QueryCanceled])
def test_what_the_code_is_to_blame_for_stays_as_it_is(kind: type[Exception]) -> None:
    with pytest.raises(kind), translated():
        raise kind("x")


def test_the_reason_is_one_line() -> None:
    error = store_error(pg.InsufficientPrivilege("permission denied for table chunks\nHINT: ask its owner"))

    assert error is not None
    assert "permission denied for table chunks" in str(error)
    assert "HINT" not in str(error)


def test_a_full_disk_is_told_without_a_path_of_the_machine() -> None:
    error = store_error(pg.DiskFull('could not extend file "base/1"\nHINT: check free space'))

    assert isinstance(error, StoreFull)
    assert "base/1" not in str(error)
