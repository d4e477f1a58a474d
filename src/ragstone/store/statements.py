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
from ragstone.store.bm25 import BM25_B, BM25_K1, TextStatistics
from ragstone.store.encoding import json_metadata, json_value, tsquery
from ragstone.types import Scope

Sql: TypeAlias = SQL | Composed

QUERIES = Queries.load(files("ragstone.store") / "sql")
COLUMNS = QUERIES["hit_columns"]

MAX_INDEXED_DIMENSION = 4_000
"""What HNSW of pgvector 0.8 takes for halfvec; vectors beyond are always scanned."""

EF_SEARCH = 120
"""Recall@10 of 0.978 at 5.3 ms CPU (100,000 vectors of 384 dimensions)."""

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
    values: Mapping[str, object] | Sequence[object] = field(default_factory=dict[str, object])
    once: bool = False
    """Prepared and planned once. Otherwise planned anew each time: a plan made for any filter would be
    wrong for most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a search sees: a scope, in the generations that answer or in the one that is named."""

    scope: Scope
    generation_id: int | None = None


def nearest(model: Model, view: View, vector: str, *, top_k: int, exact_rows: int) -> Statement:
    """The nearest vectors of the scope, under `walk_settings`; up to `exact_rows` are scanned.

    Below 0, the scope is known to be large: its rows are not counted.
    """
    limit = max(exact_rows, top_k) + 1 if exact_rows >= 0 else 0
    filtered = view.scope.filter is not None
    condition = _Condition("c" if filtered else "v", view)
    numbers = {"model_id": Literal(model.model_id), "dimension": Literal(model.dimension)}
    scope = {"scope": condition.sql, "model_id": numbers["model_id"]}
    if filtered:
        by_chunks = QUERIES["distances_of_chunks"]
        parts = {
            "inside": QUERIES["chunks_inside"].format(**scope),
            "scanned": by_chunks.format(chunks=QUERIES["scanned_chunks"], **numbers),
            "rest": by_chunks.format(chunks=QUERIES["rest_of_chunks"].format(**scope), **numbers),
            "join": QUERIES["with_each_chunk"].format(**scope),
            "scope": QUERIES["all_rows"],
        }
    else:
        parts = {
            "inside": QUERIES["distances_inside"].format(**scope),
            "scanned": QUERIES["scanned_vectors"],
            "rest": QUERIES["rest_of_vectors"].format(**scope),
            "join": SQL(""),
            "scope": condition.sql,
        }
    values = {**condition.values, "vector": vector, "top_k": top_k, "limit": limit}
    # Without a filter there is one good plan for a scan, and the settings leave one for a walk.
    sql = QUERIES["search_vector"].format(**parts, **numbers, place=QUERIES["place"])
    return Statement(sql, values, once=not filtered)


def among(
    model: Model, view: View, vector: str, chunk_ids: Sequence[str], *, copy: tuple[int, int], top_k: int
) -> Statement:
    """The nearest of `chunk_ids` and of a copy's outbox that the scope holds.

    `copy` is its id, and how many seconds what it took is looked at here too.
    """
    index_id, fresh_s = copy
    values = {"vector": vector, "top_k": top_k, "index_id": index_id, "fresh": fresh_s}
    return _over_vectors("search_among", model, view, {**values, "chunk_ids": list(chunk_ids)})


def count_inside(model: Model, view: View, limit: int) -> Statement:
    """How many vectors the scope holds, counted up to `limit`."""
    return _over_vectors("count_inside", model, view, {"limit": limit})


def _over_vectors(name: str, model: Model, view: View, values: Mapping[str, object]) -> Statement:
    filtered = view.scope.filter is not None
    condition = _Condition("c" if filtered else "v", view)
    model_id = Literal(model.model_id)
    inside = QUERIES["chunks_inside" if filtered else "vectors_inside"]
    sql = QUERIES[name].format(
        model_id=model_id,
        scope=condition.sql,
        join=QUERIES["with_chunks"] if filtered else SQL(""),
        inside=inside.format(model_id=model_id, scope=condition.sql),
        place=QUERIES["place"],
    )
    return Statement(sql, {**condition.values, **values})


def walk_settings(top_k: int, *, once: bool = False) -> Statement:
    """The settings that `nearest` runs under; `once` as the statement itself has it."""
    plans = "force_generic_plan" if once else "auto"
    values = {"ef_search": str(max(EF_SEARCH, top_k)), "plans": plans}
    return Statement(QUERIES["walk_settings"], values, once=True)


def matching(
    terms: Sequence[str], known: TextStatistics, view: View, *, top_k: int, candidates: int
) -> Statement:
    """Full text: `terms` are distinct."""
    condition = _Condition("c", view)
    bases = _of_bases(view)
    sql = QUERIES["search_text"].format(
        scope=condition.sql,
        documents=_documents(bases),
        chunks=_Condition("c", bases, disabled=True).sql,
        place=QUERIES["place"],
    )
    return Statement(
        sql,
        {
            **condition.values,
            "terms": [tsquery(term) for term in terms],
            "rows": [known.rows(term) for term in terms],
            "cap": known.cap,
            "common": known.weight,
            "chunks": known.chunks,
            "mean": known.mean,
            "top_k": top_k,
            "ranked": max(known.ranked, top_k),
            "candidates": candidates,
            "k1": BM25_K1,
            "b": BM25_B,
        },
        # The words alone lead to the rows, unless a filter may do so too.
        once=view.scope.filter is None,
    )


def other_model(identity: str, view: View) -> Statement:
    """A base in the view whose vectors are of another model."""
    condition = _Condition("g", _of_bases(view))
    sql = QUERIES["other_model"].format(scope=condition.sql)
    return Statement(sql, {**condition.values, "identity": identity}, once=True)


def count_chunks(view: View) -> Statement:
    condition = _Condition("c", view)
    return Statement(QUERIES["count_chunks"].format(scope=condition.sql), condition.values)


def text_size(view: View) -> Statement:
    """How many chunks the bases of the view have, and how many terms a chunk has on average."""
    bases = _of_bases(view)
    return Statement(QUERIES["text_size"].format(documents=_documents(bases)), _Condition("g", bases).values)


def count_terms(terms: Sequence[str], view: View, cap: int) -> Statement:
    """How many chunks of the bases hold each term, counted up to `cap` and one more."""
    condition = _Condition("c", _of_bases(view), disabled=True)
    values = {**condition.values, "terms": [tsquery(term) for term in terms], "limit": cap + 1}
    return Statement(QUERIES["count_terms"].format(chunks=condition.sql), values)


def _documents(bases: View) -> Sql:
    return QUERIES["documents_inside"].format(scope=_Condition("g", bases).sql)


def _of_bases(view: View) -> View:
    """The same bases and generation, without the filter."""
    return View(scope=Scope(bases=view.scope.bases), generation_id=view.generation_id)


class _Condition:
    """What a view asks of a row, as SQL: generation and bases on `table`, the filter on chunks `c`.

    Disabled rows of chunks `c` and vectors `v` are left out, unless with `disabled`.
    """

    def __init__(self, table: str, view: View, *, disabled: bool = False) -> None:
        scope = view.scope
        self.values: dict[str, object] = {}
        generation = "answering" if view.generation_id is None else "of_generation"
        self.sql: Sql = QUERIES[generation].format(table=Identifier(table))
        if view.generation_id is not None:
            self.values["generation_id"] = view.generation_id
        if table in ("c", "v") and not disabled:
            enabled = QUERIES["enabled"].format(table=Identifier(table))
            self.sql = QUERIES["filter_and"].format(left=self.sql, right=enabled)
        if scope.bases is not None:
            self.values["bases"] = list(scope.bases)
            bases = QUERIES["in_bases"].format(table=Identifier(table))
            self.sql = QUERIES["filter_and"].format(left=bases, right=self.sql)
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
