"""The filter language: what is read, what is refused and where, what it means."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.errors import InvalidFilter
from ragstone.filters import (
    MAX_CLAUSES,
    MAX_FILTER_LENGTH,
    And,
    Equal,
    Filter,
    both,
    checked_filter,
    matches,
    parse,
)
from ragstone.metadata import MetadataValue


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("author == 'Ann'", Equal("author", "Ann")),
        ('author=="Ann"', Equal("author", "Ann")),
        ("  year\n==\t2024 ", Equal("year", 2024)),
        ("t == -1.5", Equal("t", -1.5)),
        ("t == +.5e-3", Equal("t", 0.0005)),
        ("t == 3.", Equal("t", 3.0)),
        ("open == true", Equal("open", True)),
        ("open == FALSE", Equal("open", False)),
        ("a.b-c.d_1 == 1", Equal("a.b-c.d_1", 1)),
        ("作者 == '张三'", Equal("作者", "张三")),
        ("'two words' == 1", Equal("two words", 1)),
        ('"say \\"hi\\"" == 1', Equal('say "hi"', 1)),
        ("'and' == 1", Equal("and", 1)),
        (r"k == 'it\'s \\ \"x\" \n\t\r'", Equal("k", 'it\'s \\ "x" \n\t\r')),
        ("k == ''", Equal("k", "")),
        ("a == 1 AND b == 'x and y'", And(Equal("a", 1), Equal("b", "x and y"))),
        ("a == 1 and b == 2 And c == 3", And(And(Equal("a", 1), Equal("b", 2)), Equal("c", 3))),
    ],
)
def test_text_is_read_as_a_tree(text: str, tree: Filter) -> None:
    assert repr(parse(text)) == repr(tree)


@pytest.mark.parametrize(
    ("text", "key", "column"),
    [
        ("", "filter.blank", None),
        (" \n", "filter.blank", None),
        ("a = 1", "filter.unexpected", 3),
        ("a != 1", "filter.unexpected", 3),
        ("(a == 1)", "filter.unexpected", 1),
        ("a == 3L", "filter.unexpected", 6),
        ("a == 1.2.3", "filter.unexpected", 6),
        ("a == 'open", "filter.unclosed", 6),
        ("a == 'open\\'", "filter.unclosed", 6),
        ("a == 'C:\\dir'", "filter.escape", 9),
        ("== 1", "filter.expected_key", 1),
        ("in == 1", "filter.expected_key", 1),
        ("7 == 1", "filter.expected_key", 1),
        ("a 1", "filter.expected_operator", 3),
        ("a == b", "filter.expected_value", 6),
        ("a == null", "filter.expected_value", 6),
        ("a == 1 b == 2", "filter.expected_and", 8),
        ("a == 1 or b == 2", "filter.expected_and", 8),
        ("a == 1 and", "filter.ended", 11),
        ("a ==", "filter.ended", 5),
        ("a", "filter.ended", 2),
        ("a == 9223372036854775808", "filter.number", 6),
        ("a == 1e999", "filter.number", 6),
        ("x" * (MAX_FILTER_LENGTH + 1), "filter.too_long", None),
        ("k" * 600 + " == 1", "filter.key_too_long", None),
        (" and ".join(["a == 1"] * (MAX_CLAUSES + 1)), "filter.too_many", None),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, key: str, column: int | None) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse(text)
    assert caught.value.key == key
    assert caught.value.values.get("column") == column
    assert caught.value.text("zh") != str(caught.value)


@pytest.mark.parametrize(
    ("held", "wanted", "expected"),
    [
        (1, 1.0, True),
        (1.0, 1, True),
        (True, 1, False),
        (1, True, False),
        (1, "1", False),
        ("a", "A", False),
        ("é", "e\u0301", False),
        (("a", "b"), "b", True),
        (("a", "b"), "c", False),
        ((), "a", False),
        ((1, 2), True, False),
        (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC), True),
        (datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1), False),
        (datetime(2024, 1, 1, tzinfo=UTC), "2024-01-01T00:00:00+00:00", False),
    ],
)
def test_equality_keeps_types_apart(held: MetadataValue, wanted: str, expected: bool) -> None:
    assert matches(Equal("k", wanted), {"k": held}) is expected
    assert matches(Equal("k", wanted), {"other": held}) is False


def test_and_needs_both() -> None:
    tree = parse("a == 1 and b == 2")
    assert matches(tree, {"a": 1, "b": 2})
    assert not matches(tree, {"a": 1})
    assert both(None, tree) is tree
    assert both(tree, None) is tree
    assert both(Equal("a", 1), Equal("b", 2)) == tree


def test_a_tree_built_in_code_meets_the_same_limits() -> None:
    clauses: list[Filter] = [Equal("a", n) for n in range(MAX_CLAUSES)]
    assert checked_filter(reduce(And, clauses)) is not None
    with pytest.raises(InvalidFilter):
        checked_filter(reduce(And, [*clauses, Equal("a", 1)]))
    deep: Filter = Equal("a", 1)
    for _ in range(50_000):
        deep = And(deep, Equal("a", 1))
    with pytest.raises(InvalidFilter):
        checked_filter(deep)
    with pytest.raises(InvalidFilter):
        checked_filter(Equal("k" * 513, 1))


@settings(deadline=None)
@given(st.text(max_size=60) | st.text(alphabet="ab.'\"\\=& and1e-+true", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InvalidFilter):
        checked_filter(parse(text))


@settings(deadline=None)
@given(key=st.text(min_size=1, max_size=20), value=st.text(max_size=40))
def test_any_key_and_value_can_be_written_in_quotes(key: str, value: str) -> None:
    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    assert parse(f"{quoted(key)} == {quoted(value)}") == Equal(key, value)
