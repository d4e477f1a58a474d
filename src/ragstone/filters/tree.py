"""The tree of a filter, and which rows it holds for (pure).

Two-valued logic: `Not` is exactly "does not hold", never pushed inward. A row without
the key satisfies no comparison, and therefore every negation of one.

Numbers compare as numbers (1 == 1.0), a truth value is never a number, a number is never
text; values of two types are neither equal nor in any order. Text compares by code
point, times as moments, false stands before true. On a list a comparison holds if any
element satisfies it. What metadata cannot hold (NaN, infinity, a time without zone) equals
nothing and stands in no order.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast

from ragstone.errors import InvalidFilter
from ragstone.metadata import MAX_VALUE_LENGTH, Metadata, Scalar, holdable

MAX_CLAUSES = 200
MAX_DEPTH = 250
MAX_KEY_LENGTH = 512
MAX_VALUES = 2_000
"""Values in all lists of a filter together."""

Operator: TypeAlias = Literal["<", "<=", ">", ">="]

_ORDERS: dict[Operator, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _Node:
    """`&`, `|` and `~` combine filters."""

    __slots__ = ()

    def __and__(self, other: Filter) -> And:
        return And(cast("Filter", self), other)

    def __or__(self, other: Filter) -> Or:
        return Or(cast("Filter", self), other)

    def __invert__(self) -> Not:
        return Not(cast("Filter", self))

    def __bool__(self) -> bool:
        # `a and b` would silently be `b` alone.
        raise InvalidFilter("filter.truth")


@dataclass(frozen=True, slots=True)
class Equal(_Node):
    """The key holds this value."""

    key: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class Compare(_Node):
    """The key holds a value of the same type that stands so to `value`."""

    key: str
    operator: Operator
    value: Scalar


@dataclass(frozen=True, slots=True)
class In(_Node):
    """The key holds one of these values; with none it holds for no row."""

    key: str
    values: tuple[Scalar, ...]

    def __post_init__(self) -> None:
        if isinstance(self.values, (str, bytes)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidFilter("filter.value_type", name=self.key[:80], value=repr(self.values)[:80])
        object.__setattr__(self, "values", tuple(self.values))


@dataclass(frozen=True, slots=True)
class Present(_Node):
    """The row has the key, an empty list included."""

    key: str


@dataclass(frozen=True, slots=True)
class And(_Node):
    left: Filter
    right: Filter


@dataclass(frozen=True, slots=True)
class Or(_Node):
    left: Filter
    right: Filter


@dataclass(frozen=True, slots=True)
class Not(_Node):
    inner: Filter


Filter: TypeAlias = Equal | Compare | In | Present | And | Or | Not


def both(left: Filter | None, right: Filter | None) -> Filter | None:
    """The filter that holds where both hold; None stands for no restriction."""
    if left is None or right is None:
        return left if right is None else right
    return And(left, right)


def matches(filter: Filter, metadata: Metadata) -> bool:
    """Whether a row with this metadata satisfies the filter."""
    match filter:
        case And(left, right):
            return matches(left, metadata) and matches(right, metadata)
        case Or(left, right):
            return matches(left, metadata) or matches(right, metadata)
        case Not(inner):
            return not matches(inner, metadata)
        case Present(key):
            return metadata.get(key) is not None
        case Equal(key, value):
            return _any(metadata, key, (value,), operator.eq)
        case In(key, values):
            return _any(metadata, key, values, operator.eq)
        case Compare(key, compared, value):
            return _any(metadata, key, (value,), _ORDERS[compared])


def _any(metadata: Metadata, key: str, values: Iterable[Scalar], holds: Callable[[Any, Any], bool]) -> bool:
    held = metadata.get(key)
    if held is None:
        return False
    items = held if isinstance(held, tuple) else (held,)
    return any(
        kind(item) == kind(value) and holds(item, value)
        for value in values
        if holdable(value)
        for item in items
    )


def kind(value: Scalar) -> Literal["bool", "number", "text", "datetime"]:
    """The type two values must share to be compared at all."""
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "text"
        case datetime():
            return "datetime"


def checked_filter(filter: Filter) -> Filter:
    """`filter` if it is well formed and small enough to be evaluated anywhere.

    Trees built in code meet the same limits as those read from text: 200 clauses, 2,000
    values in lists, a depth of 250, keys of 512 characters. The two sides of an And are
    counted apart: one may be a filter that is put beside each request's.

    Raises:
        InvalidFilter: too much of something, a value that is no scalar, a part that is
            no filter.
    """
    if isinstance(filter, And):
        _check_size(filter.left)
        _check_size(filter.right)
    else:
        _check_size(filter)
    return filter


def _check_size(filter: Filter) -> None:
    clauses = values = 0
    for node, depth in _walk(filter):
        if depth > MAX_DEPTH:
            raise InvalidFilter("filter.too_deep", limit=MAX_DEPTH)
        if isinstance(node, (And, Or, Not)):
            continue
        clauses += 1
        values += len(node.values) if isinstance(node, In) else 0
        if clauses > MAX_CLAUSES:
            raise InvalidFilter("filter.too_many", limit=MAX_CLAUSES)
        if values > MAX_VALUES:
            raise InvalidFilter("filter.too_many_values", limit=MAX_VALUES)
        _check_clause(node)


def _walk(filter: Filter) -> Iterator[tuple[Filter, int]]:
    """Every node with its depth, without recursion."""
    pending: list[tuple[Filter, int]] = [(filter, 1)]
    while pending:
        node, depth = pending.pop()
        if not isinstance(node, _Node):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidFilter("filter.no_filter", value=repr(node)[:80])
        yield node, depth
        match node:
            case And(left, right) | Or(left, right):
                pending += [(right, depth + 1), (left, depth + 1)]
            case Not(inner):
                pending.append((inner, depth + 1))
            case _:
                pass


def _check_clause(node: Equal | Compare | In | Present) -> None:
    if not isinstance(node.key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidFilter("filter.no_filter", value=repr(node)[:80])
    if len(node.key) > MAX_KEY_LENGTH:
        raise InvalidFilter("filter.key_too_long", length=len(node.key), limit=MAX_KEY_LENGTH)
    match node:
        case Equal(key, value):
            _check_value(key, value)
        case Compare(key, compared, value):
            if compared not in _ORDERS:
                raise InvalidFilter("filter.no_filter", value=repr(node)[:80])
            _check_value(key, value)
        case In(key, values):
            for value in values:
                _check_value(key, value)
        case Present():
            pass


def _check_value(key: str, value: object) -> None:
    if not isinstance(value, (str, int, float, bool, datetime)):
        raise InvalidFilter("filter.value_type", name=key[:80], value=repr(value)[:80])
    if isinstance(value, str) and len(value) > MAX_VALUE_LENGTH:
        raise InvalidFilter("filter.value_too_long", name=key[:80], limit=MAX_VALUE_LENGTH)
