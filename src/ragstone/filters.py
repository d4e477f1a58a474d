"""Metadata filters: text to a tree, and what the tree means (pure).

    filter   := clause ("and" clause)*
    clause   := key "==" value
    key      := identifier with dots, or quoted
    value    := quoted text, number, true, false

Two-valued logic: a row without the key does not satisfy `==`. Numbers compare as
numbers (1 == 1.0), a truth value is never a number, a number is never text. On a list
the comparison holds if any element satisfies it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ragstone.metadata import Scalar


@dataclass(frozen=True, slots=True)
class Equal:
    key: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class And:
    left: Filter
    right: Filter


Filter: TypeAlias = Equal | And


def both(left: Filter | None, right: Filter | None) -> Filter | None:
    """The filter that holds where both hold; None stands for no restriction."""
    if left is None or right is None:
        return left if right is None else right
    return And(left, right)
