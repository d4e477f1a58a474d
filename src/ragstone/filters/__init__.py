"""Metadata filters: text or builder to one tree, and what the tree means (pure).

    parse("year >= 2020 and not genre in ['drama', 'crime']")
    (key("year") >= 2020) & ~key("genre").one_of(["drama", "crime"])

Both give the same tree of frozen values. `tree.py` says what it means, `text.py` what can
be written.
"""

from __future__ import annotations

from ragstone.filters.build import Key, key
from ragstone.filters.text import MAX_FILTER_LENGTH, MAX_NESTING, parse
from ragstone.filters.tree import (
    MAX_CLAUSES,
    MAX_DEPTH,
    MAX_KEY_LENGTH,
    MAX_VALUES,
    And,
    Compare,
    Equal,
    Filter,
    In,
    Not,
    Operator,
    Or,
    Present,
    both,
    checked_filter,
    kind,
    matches,
)

__all__ = [
    "MAX_CLAUSES",
    "MAX_DEPTH",
    "MAX_FILTER_LENGTH",
    "MAX_KEY_LENGTH",
    "MAX_NESTING",
    "MAX_VALUES",
    "And",
    "Compare",
    "Equal",
    "Filter",
    "In",
    "Key",
    "Not",
    "Operator",
    "Or",
    "Present",
    "both",
    "checked_filter",
    "key",
    "kind",
    "matches",
    "parse",
]
