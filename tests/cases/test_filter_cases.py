"""Every shared filter case: read from text, built as a tree, in memory and in PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any, LiteralString, cast

import psycopg
import pytest

from ragstone.errors import InvalidFilter
from ragstone.filters import And, Compare, Equal, Filter, In, Not, Or, Present, matches, parse
from ragstone.metadata import MetadataValue, checked
from ragstone.store.encoding import json_metadata
from ragstone.store.statements import View, count_chunks
from ragstone.testing.databases import temporary_database
from ragstone.types import Scope

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"
if not CASES.is_dir():
    pytest.skip("no shared cases beside the checkout", allow_module_level=True)


def cases(name: str) -> list[Any]:
    lines = (CASES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [pytest.param(case, id=f"{name}-{case.get('id', n)}") for n, case in enumerate(found)]


def built(tree: dict[str, Any]) -> Filter:
    """The tree of a case; `!=`, `not in` and `is null` are negations in ours."""
    match tree:
        case {"op": "and" | "or" as op, "args": args}:
            return reduce(And if op == "and" else Or, [built(item) for item in args])
        case {"op": "not", "args": [inner]}:
            return Not(built(inner))
        case {"op": "is null", "key": key}:
            return Not(Present(key))
        case {"op": "is not null", "key": key}:
            return Present(key)
        case {"op": "in", "key": key, "value": values}:
            return In(key, tuple(values))
        case {"op": "not in", "key": key, "value": values}:
            return Not(In(key, tuple(values)))
        case {"op": "==", "key": key, "value": value}:
            return Equal(key, value)
        case {"op": "!=", "key": key, "value": value}:
            return Not(Equal(key, value))
        case {"op": "<" | "<=" | ">" | ">=" as op, "key": key, "value": value}:
            return Compare(key, op, value)
        case _:
            raise AssertionError(tree)


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


def found(connection: psycopg.Connection, tree: Filter, rows: list[dict[str, MetadataValue]]) -> list[int]:
    """The rows that match, the same in memory and in PostgreSQL."""
    connection.execute("TRUNCATE chunks")
    for n, row in enumerate(rows):
        connection.execute("INSERT INTO chunks VALUES (%s, %s)", [str(n), json_metadata(row)])
    statement = count_chunks(View(scope=Scope(filter=tree)))
    sql = statement.sql.as_string(connection).replace("count(*)", "base_id")
    stored = connection.execute(cast(LiteralString, sql), statement.values).fetchall()
    in_memory = [index for index, row in enumerate(rows) if matches(tree, row)]
    assert sorted(int(row[0]) for row in stored) == in_memory
    return in_memory


@pytest.mark.parametrize("case", cases("filter_parse"))
def test_parse(case: dict[str, Any]) -> None:
    assert repr(parse(case["input"])) == repr(built(case["expected_ast"]))


@pytest.mark.parametrize("case", cases("filter_eval"))
def test_eval(connection: psycopg.Connection, case: dict[str, Any]) -> None:
    rows = [checked(row) for row in case["rows"]]
    assert found(connection, built(case["filter"]), rows) == case["expected_matched"]
    assert found(connection, parse(case["filter_text"]), rows) == case["expected_matched"]


@pytest.mark.parametrize("case", cases("filter_negation"))
def test_negation(connection: psycopg.Connection, case: dict[str, Any]) -> None:
    values: list[Any] = [10, 11, 12, 13, 14, 12.5, "UK", "US"]
    same_type = values[-2:] if "UK" in case["input"] else values[:-2]
    rows = [checked({"key": value}) for value in same_type]
    equivalent = found(connection, built(case["equivalent_without_not"]), rows)
    assert found(connection, parse(case["input"]), rows) == equivalent
    # Among rows of another type or without the key the two differ: a negation holds there.
    others = [checked(row) for row in ({}, {"other": 11}, {"key": True})]
    expected = (
        [] if case["input"].startswith(("key IN", "NOT NOT", "NOT key !=", "NOT key NOT")) else [0, 1, 2]
    )
    assert found(connection, parse(case["input"]), others) == expected


@pytest.mark.parametrize("case", cases("filter_injection"))
def test_injection(connection: psycopg.Connection, case: dict[str, Any]) -> None:
    rows = [checked(row) for row in case["rows"]]
    hostile = case["as_value"]
    # NUL is dropped from stored text, so a value with NUL equals no row.
    exact = [] if "\x00" in hostile else case["expected_matched"]
    assert found(connection, built(case["filter"]), rows) == exact
    assert found(connection, In("k", (hostile,)), rows) == exact
    assert found(connection, Not(Equal("k", hostile)), rows) == [n for n in range(3) if n not in exact]
    for tree in (
        Equal(hostile, "alice"),
        Compare(hostile, ">=", ""),
        Present(hostile),
        In(hostile, ("x", 1)),
    ):
        assert found(connection, tree, rows) == []
    for text in (hostile, f"k == 'other' and {hostile}", f"k == '{hostile}"):
        try:
            tree = parse(text)
        except InvalidFilter:
            continue
        assert found(connection, And(Equal("k", "other"), tree), rows) in ([], [1])
