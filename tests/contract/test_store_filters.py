"""Random filters over random rows: PostgreSQL finds exactly the rows that `matches` says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import LiteralString, cast

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.errors import InvalidFilter
from ragstone.filters import (
    MAX_CLAUSES,
    MAX_DEPTH,
    MAX_NESTING,
    MAX_VALUES,
    And,
    Compare,
    Equal,
    Filter,
    In,
    Not,
    Or,
    Present,
    checked_filter,
    matches,
    parse,
)
from ragstone.metadata import MetadataValue, Scalar, checked
from ragstone.store.encoding import json_metadata, read_metadata
from ragstone.store.statements import View, count_chunks
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
asked_keys = keys | st.just("\x00")
clauses = (
    st.builds(Equal, asked_keys, values | odd)
    | st.builds(Compare, asked_keys, st.sampled_from(("<", "<=", ">", ">=")), values | odd)
    | st.builds(In, asked_keys, st.lists(values | odd, max_size=4).map(tuple))
    | st.builds(Present, asked_keys)
)
filters = st.recursive(
    clauses,
    lambda inner: st.builds(And, inner, inner) | st.builds(Or, inner, inner) | st.builds(Not, inner),
    max_leaves=6,
)
# What a request might send to break out of the filter it is joined with.
texts = st.sampled_from(
    [
        "a == 1 or a != 1",
        "not a == 1",
        "a is null or a is not null",
        "not (not (a is null)) or not a == 'x'",
        "a == 1) or (a != 1",
        "'; --' == 1 or true == true",
        "a nin []",
        "a == '\\') or (true'",
        "not in in []",
    ]
)


def _read(text: str) -> Filter:
    try:
        return parse(text)
    except InvalidFilter:
        return Not(In("no row has this", ()))


@pytest.fixture(scope="module")
def connection(embedded_database: str) -> Iterator[psycopg.Connection]:
    with (
        temporary_database(embedded_database) as conninfo,
        psycopg.connect(conninfo, autocommit=True) as connection,
    ):
        connection.execute(
            "CREATE TEMP TABLE chunks (base_id text, metadata jsonb, generation_id integer DEFAULT 1,"
            " enabled boolean DEFAULT true)"
        )
        connection.execute("CREATE TEMP TABLE generations (generation_id integer, state text)")
        yield connection


@settings(deadline=None, max_examples=200)
@given(metadata=st.lists(rows, min_size=1, max_size=12), asked=st.lists(filters, min_size=4, max_size=12))
def test_filters_find_the_same_rows_in_sql(
    connection: psycopg.Connection, metadata: list[dict[str, MetadataValue]], asked: list[Filter]
) -> None:
    """A46, A47, D10: thousands of trees, each against the rows of its example."""
    kept = [checked(row) for row in metadata]
    asked = asked + _near(kept)
    for tree, found in zip(asked, _found(connection, kept, asked), strict=True):
        assert found == {n for n, row in enumerate(kept) if matches(tree, row)}, tree


@settings(deadline=None, max_examples=100)
@given(
    metadata=st.lists(rows, min_size=1, max_size=12),
    mandatory=filters,
    asked=st.lists(filters | texts.map(_read), min_size=1, max_size=8),
)
def test_a_request_never_widens_a_mandatory_filter(
    connection: psycopg.Connection,
    metadata: list[dict[str, MetadataValue]],
    mandatory: Filter,
    asked: list[Filter],
) -> None:
    """D10: whatever a request asks for, it sees a part of what the mandatory filter lets through."""
    kept = [checked(row) for row in metadata]
    asked = asked + _near(kept)
    allowed = {n for n, row in enumerate(kept) if matches(mandatory, row)}
    own = Scope(bases=None, filter=mandatory)
    scopes = [own & Scope(filter=tree) for tree in asked] + [Scope(filter=tree) & own for tree in asked]
    narrowed = [scope.filter for scope in scopes if scope.filter is not None]
    assert len(narrowed) == len(scopes)
    for tree, found in zip(narrowed, _found(connection, kept, narrowed), strict=True):
        assert found <= allowed
        assert found == {n for n, row in enumerate(kept) if matches(tree, row)}


def test_the_deepest_and_widest_filters_run(connection: psycopg.Connection) -> None:
    chain = reduce(And, [Equal("a", n) for n in range(MAX_CLAUSES)])
    deep: Filter = Equal("a", 1)
    for _ in range(MAX_DEPTH - 1):
        deep = Not(deep)
    wide = In("a", tuple(range(MAX_VALUES)))
    nested = parse("not (" * (MAX_NESTING // 2) + "a == 1" + ")" * (MAX_NESTING // 2))
    asked = [checked_filter(tree) for tree in (chain, deep, wide, nested)]
    assert _found(connection, [{"a": 1}, {"b": 1}], asked) == [set(), {1}, {0}, {0}]


def _found(
    connection: psycopg.Connection, kept: list[dict[str, MetadataValue]], asked: list[Filter]
) -> list[set[int]]:
    """The rows that PostgreSQL finds for each filter, asked in one go."""
    with connection.pipeline():
        connection.execute("TRUNCATE chunks")
        for n, row in enumerate(kept):
            connection.execute("INSERT INTO chunks VALUES (%s, %s)", [str(n), json_metadata(row)])
        cursors = []
        for tree in asked:
            statement = count_chunks(View(scope=Scope(filter=tree)))
            sql = statement.sql.as_string(connection).replace("count(*)", "base_id")
            cursors.append(connection.execute(cast(LiteralString, sql), statement.values))
        return [{int(row[0]) for row in cursor.fetchall()} for cursor in cursors]


def _near(kept: list[dict[str, MetadataValue]]) -> list[Filter]:
    """Filters that are true somewhere: random ones seldom are."""
    return [
        tree
        for row in kept[:6]
        for key, value in row.items()
        if value != ()
        for tree in (Equal(key, _first(value)), Not(Compare(key, ">", _first(value))))
    ]


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
