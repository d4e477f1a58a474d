"""Random filters over random rows: PostgreSQL finds exactly the rows that `matches` says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import LiteralString, cast

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.filters import And, Equal, Filter, matches
from ragstone.metadata import MetadataValue, Scalar, checked
from ragstone.store.encoding import json_metadata, read_metadata
from ragstone.store.statements import count_chunks
from ragstone.testing.databases import temporary_database
from ragstone.types import Scope

# Few keys and values, so that they meet; chosen where JSON, SQL and Python could differ.
KEYS = ("a", "a.b", "A", "ключ", "'; --", '"', "\\", "{}", "%s", "$datetime", " ")
MOMENT = datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC)
BY_TYPE: tuple[tuple[Scalar, ...], ...] = (
    (
        0,
        1,
        -1,
        2**53,
        2**53 + 1,
        2**62,
        2**63 - 1,
        0.0,
        -0.0,
        1.0,
        0.1,
        1e-7,
        5e-324,
        1e300,
        2.0**53,
        2.0**62,
    ),
    (True, False),
    ("", "a", "A", "é", "e\u0301", "1", "true", "null", "[]", "\\", "'", '"', "%", "😀", "2024", '{"a": 1}'),
    (MOMENT, MOMENT + timedelta(microseconds=1), datetime(1, 1, 1, tzinfo=UTC)),
)
keys = st.sampled_from(KEYS)
types = st.sampled_from(BY_TYPE)
odd = st.sampled_from([float("nan"), float("inf"), "\x00", "\ud800", datetime(2024, 1, 1), 10**30])
values = types.flatmap(st.sampled_from)
lists = types.flatmap(lambda group: st.lists(st.sampled_from(group), max_size=3).map(tuple))
rows = st.dictionaries(keys.filter(str.strip), values | lists, max_size=4)
clauses = st.builds(Equal, keys | st.just("\x00"), values | odd)
filters = st.recursive(clauses, lambda inner: st.builds(And, inner, inner), max_leaves=5)


@pytest.fixture(scope="module")
def connection(embedded_database: str) -> Iterator[psycopg.Connection]:
    with (
        temporary_database(embedded_database) as conninfo,
        psycopg.connect(conninfo, autocommit=True) as connection,
    ):
        connection.execute("CREATE TEMP TABLE chunks (base_id text, metadata jsonb)")
        yield connection


@settings(deadline=None, max_examples=300)
@given(metadata=st.lists(rows, min_size=1, max_size=12), asked=st.lists(filters, min_size=1, max_size=12))
def test_filters_find_the_same_rows_in_sql(
    connection: psycopg.Connection, metadata: list[dict[str, MetadataValue]], asked: list[Filter]
) -> None:
    kept = [checked(row) for row in metadata]
    # A filter that is true somewhere is tried too: random ones seldom are.
    asked = asked + [Equal(key, _first(value)) for row in kept for key, value in row.items() if value != ()]
    connection.execute("TRUNCATE chunks")
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO chunks VALUES (%s, %s)", [(str(n), json_metadata(row)) for n, row in enumerate(kept)]
        )
    for tree in asked:
        statement = count_chunks(Scope(filter=tree))
        sql = statement.sql.as_string(connection).replace("count(*)", "base_id")
        found = connection.execute(cast(LiteralString, sql), statement.values).fetchall()
        expected = {str(n) for n, row in enumerate(kept) if matches(tree, row)}
        assert {row[0] for row in found} == expected, tree


@settings(deadline=None, max_examples=300)
@given(metadata=rows)
def test_metadata_comes_back_with_its_types(
    connection: psycopg.Connection, metadata: dict[str, MetadataValue]
) -> None:
    kept = checked(metadata)
    row = connection.execute("SELECT %s::jsonb", [json_metadata(kept)]).fetchone()
    assert row is not None
    assert repr(sorted(read_metadata(row[0]).items())).replace("-0.0", "0.0") == repr(
        sorted(kept.items())
    ).replace("-0.0", "0.0")


def _first(value: MetadataValue) -> Scalar:
    return value[0] if isinstance(value, tuple) else value
