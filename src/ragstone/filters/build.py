"""Filters written in Python (pure).

(key("year") >= 2020) & (key("country") != "BG") | key("draft").missing()
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from ragstone.errors import InvalidFilter
from ragstone.filters.tree import Compare, Equal, In, Not, Present
from ragstone.metadata import Scalar


def key(name: str) -> Key:
    """A metadata key to compare: `key("user_id") == "u7"`, `key("tags").one_of(["a", "b"])`."""
    return Key(name)


class Key:
    """Comparisons of one metadata key; each gives a filter.

    The operators `== != < <= > >=` and the methods say the same. Put comparisons in
    parentheses before `&` and `|`.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def equals(self, value: Scalar) -> Equal:
        return Equal(self._name, value)

    def differs(self, value: Scalar) -> Not:
        """Not equal; also where the row has no such key."""
        return Not(self.equals(value))

    def below(self, value: Scalar) -> Compare:
        return Compare(self._name, "<", value)

    def at_most(self, value: Scalar) -> Compare:
        return Compare(self._name, "<=", value)

    def above(self, value: Scalar) -> Compare:
        return Compare(self._name, ">", value)

    def at_least(self, value: Scalar) -> Compare:
        return Compare(self._name, ">=", value)

    def one_of(self, values: Iterable[Scalar]) -> In:
        if isinstance(values, str):
            raise InvalidFilter("filter.value_type", name=self._name[:80], value=repr(values)[:80])
        return In(self._name, tuple(values))

    def none_of(self, values: Iterable[Scalar]) -> Not:
        """None of these; also where the row has no such key."""
        return Not(self.one_of(values))

    def present(self) -> Present:
        return Present(self._name)

    def missing(self) -> Not:
        return Not(self.present())

    # Comparing a key gives a filter, so keys themselves are never compared or hashed.
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, value: object) -> Equal:  # type: ignore[override]
        return self.equals(cast(Scalar, value))

    def __ne__(self, value: object) -> Not:  # type: ignore[override]
        return self.differs(cast(Scalar, value))

    def __lt__(self, value: Scalar) -> Compare:
        return self.below(value)

    def __le__(self, value: Scalar) -> Compare:
        return self.at_most(value)

    def __gt__(self, value: Scalar) -> Compare:
        return self.above(value)

    def __ge__(self, value: Scalar) -> Compare:
        return self.at_least(value)
