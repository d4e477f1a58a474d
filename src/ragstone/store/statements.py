"""Statements whose text depends on the scope or the model, put together from named blocks.

Keys and values of filters and ids of bases are bound. Only two integers stand in the
text itself, the model's id and its dimension: a partial expression index is found in no
other way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.resources import files
from typing import TypeAlias

from psycopg.sql import SQL, Composed, Identifier, Literal, Placeholder

from ragstone.filters import And, Compare, Equal, Filter, In, Not, Operator, Or, Present
from ragstone.metadata import Scalar, holdable, storable
from ragstone.postgres.queries import Queries
from ragstone.store.bm25 import BM25_B, BM25_K1
from ragstone.store.encoding import json_metadata, json_value
from ragstone.types import Scope

Sql: TypeAlias = SQL | Composed

QUERIES = Queries.load(files("ragstone.store") / "sql")
COLUMNS = QUERIES["hit_columns"]

MAX_INDEXED_DIMENSION = 4_000
"""What HNSW of pgvector 0.8 takes for halfvec; vectors beyond are always scanned."""

# Lax paths: `[*]` is every element of a list, and the value itself where it is none. Only values of
# one type compare, text by code point; a time is an object, so it never meets text.
_PATHS: Mapping[Operator, str] = {
    "<": "$[*] ? (@ < $value)",
    "<=": "$[*] ? (@ <= $value)",
    ">": "$[*] ? (@ > $value)",
    ">=": "$[*] ? (@ >= $value)",
}
_TIME_PATHS: Mapping[Operator, str] = {
    operator: path.replace("@", '@."$datetime"') for operator, path in _PATHS.items()
}


@dataclass(frozen=True, slots=True)
class Model:
    """An embedding model as the database knows it."""

    identity: str
    model_id: int
    dimension: int

    @property
    def index_name(self) -> str:
        return f"vectors_hnsw_{self.model_id}"


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with the values that are bound to it."""

    sql: Sql
    values: Mapping[str, object] = field(default_factory=dict[str, object])


def exact(model: Model, scope: Scope, vector: str, top_k: int) -> Statement:
    """Every vector of the scope against the question's."""
    return _over_vectors("search_exact", model, scope, {"vector": vector, "top_k": top_k})


def walk(model: Model, scope: Scope, vector: str, top_k: int) -> Statement:
    """The same through the model's nearest-neighbour index, under `walk_settings`."""
    return _over_vectors("search_index", model, scope, {"vector": vector, "top_k": top_k})


def among(
    model: Model,
    scope: Scope,
    vector: str,
    top_k: int,
    index_id: int,
    chunk_ids: Sequence[str],
    *,
    fresh_s: int,
) -> Statement:
    """Those of `chunk_ids` and of the copy's outbox that the scope holds, by their distance."""
    values = {"vector": vector, "top_k": top_k, "index_id": index_id, "fresh": fresh_s}
    return _over_vectors("search_among", model, scope, {**values, "chunk_ids": list(chunk_ids)})


def count_vectors(model: Model, scope: Scope, limit: int) -> Statement:
    """How many vectors of the model the scope holds, counted up to `limit`."""
    return _over_vectors("count_vectors", model, scope, {"limit": limit})


def matching(terms: list[str], scope: Scope, *, top_k: int, candidates: int) -> Statement:
    """Full text: `terms` are tsqueries of one lexeme each."""
    condition = _Condition("c", scope)
    sql = QUERIES["search_text"].format(columns=COLUMNS, scope=condition.sql)
    return Statement(
        sql,
        {
            **condition.values,
            "terms": terms,
            "top_k": top_k,
            "candidates": candidates,
            "k1": BM25_K1,
            "b": BM25_B,
        },
    )


def other_model(identity: str, scope: Scope) -> Statement:
    condition = _Condition("b", Scope(bases=scope.bases))
    return Statement(
        QUERIES["other_model"].format(scope=condition.sql), {**condition.values, "identity": identity}
    )


def count_chunks(scope: Scope) -> Statement:
    condition = _Condition("c", scope)
    return Statement(QUERIES["count_chunks"].format(scope=condition.sql), condition.values)


def _over_vectors(name: str, model: Model, scope: Scope, values: Mapping[str, object]) -> Statement:
    condition = _Condition("v", scope)
    sql = QUERIES[name].format(
        columns=COLUMNS,
        model_id=Literal(model.model_id),
        dimension=Literal(model.dimension),
        scope=condition.sql,
        join=QUERIES["with_chunks"] if scope.filter is not None else SQL(""),
    )
    return Statement(sql, {**condition.values, **values})


class _Condition:
    """What a scope asks of a row, as SQL: bases on `table`, the filter on chunks `c`."""

    def __init__(self, table: str, scope: Scope) -> None:
        self.values: dict[str, object] = {}
        self.sql: Sql = QUERIES["all_rows"]
        if scope.bases is not None:
            self.values["bases"] = list(scope.bases)
            self.sql = QUERIES["in_bases"].format(table=Identifier(table))
        if scope.filter is not None:
            self.sql = QUERIES["filter_and"].format(left=self.sql, right=self._filter(scope.filter))

    def _filter(self, filter: Filter) -> Sql:
        match filter:
            case And(left, right):
                return QUERIES["filter_and"].format(left=self._filter(left), right=self._filter(right))
            case Or(left, right):
                return QUERIES["filter_or"].format(left=self._filter(left), right=self._filter(right))
            case Not(inner):
                return QUERIES["filter_not"].format(inner=self._filter(inner))
            case _:
                # What no database can hold is no row's key.
                return self._clause(filter) if storable(filter.key) else QUERIES["filter_never"]

    def _clause(self, clause: Equal | Compare | In | Present) -> Sql:
        match clause:
            case Present(key):
                return QUERIES["filter_present"].format(key=self._bound(key))
            case Compare(key, operator, value):
                return self._compare(key, operator, value) if holdable(value) else QUERIES["filter_never"]
            case Equal(key, value):
                return self._one_of(key, (value,))
            case In(key, values):
                return self._one_of(key, values)

    def _one_of(self, key: str, values: Sequence[Scalar]) -> Sql:
        held = [value for value in values if holdable(value)]
        if not held:
            return QUERIES["filter_never"]
        if len(held) > 1:
            both_ways = [json_metadata({key: form}) for value in held for form in (value, (value,))]
            return QUERIES["filter_in"].format(values=self._bound(both_ways))
        return QUERIES["filter_equal"].format(
            value=self._bound(json_metadata({key: held[0]})),
            item=self._bound(json_metadata({key: (held[0],)})),
        )

    def _compare(self, key: str, operator: Operator, value: Scalar) -> Sql:
        path = _TIME_PATHS if isinstance(value, datetime) else _PATHS
        compared = json_value(value)
        if isinstance(value, datetime):
            compared = json.dumps(json.loads(compared)["$datetime"])
        return QUERIES["filter_compare"].format(
            key=self._bound(key),
            path=self._bound(path[operator]),
            value=self._bound(f'{{"value": {compared}}}'),
        )

    def _bound(self, value: object) -> Placeholder:
        name = f"filter_{len(self.values)}"
        self.values[name] = value
        return Placeholder(name)
