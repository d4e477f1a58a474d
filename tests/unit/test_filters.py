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
    MAX_DEPTH,
    MAX_FILTER_LENGTH,
    MAX_NESTING,
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
    key,
    matches,
    parse,
)
from ragstone.metadata import MetadataValue, Scalar


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
        ("a == 1 && b == 2 || c == 3", Or(And(Equal("a", 1), Equal("b", 2)), Equal("c", 3))),
        ("a == 1 or b == 2 AND c == 3", Or(Equal("a", 1), And(Equal("b", 2), Equal("c", 3)))),
        ("(a == 1 OR b == 2) and c == 3", And(Or(Equal("a", 1), Equal("b", 2)), Equal("c", 3))),
        ("a!=1", Not(Equal("a", 1))),
        ("a<1 and a<=2", And(Compare("a", "<", 1), Compare("a", "<=", 2))),
        ("a > 'x' and a >= -2.5", And(Compare("a", ">", "x"), Compare("a", ">=", -2.5))),
        ("a in ['x', 2, true]", In("a", ("x", 2, True))),
        ("a IN []", In("a", ())),
        ("a not in [1]", Not(In("a", (1,)))),
        ("a nin ['b']", Not(In("a", ("b",)))),
        ("a is null", Not(Present("a"))),
        ("a IS NOT NULL", Present("a")),
        ("not a == 1 and b == 2", And(Not(Equal("a", 1)), Equal("b", 2))),
        ("not (a == 1 and b == 2)", Not(And(Equal("a", 1), Equal("b", 2)))),
        ("not not a not in [1]", Not(Not(Not(In("a", (1,)))))),
        ("d == 2024-05-31", Equal("d", datetime(2024, 5, 31, tzinfo=UTC))),
        ("d >= 2024-05-31T08:30:00+08:00", Compare("d", ">=", datetime(2024, 5, 31, 0, 30, tzinfo=UTC))),
        (
            "d in [2024-05-31t08:30z, 2024-05-31T08:30:00.25Z]",
            In(
                "d", (datetime(2024, 5, 31, 8, 30, tzinfo=UTC), datetime(2024, 5, 31, 8, 30, 0, 250_000, UTC))
            ),
        ),
        ("d == '2024-05-31'", Equal("d", "2024-05-31")),
    ],
)
def test_text_is_read_as_a_tree(text: str, tree: Filter) -> None:
    """A46"""
    assert repr(parse(text)) == repr(tree)


@pytest.mark.parametrize(
    ("text", "key", "column"),
    [
        ("", "filter.blank", None),
        (" \n", "filter.blank", None),
        ("a = 1", "filter.unexpected", 3),
        ("a ! 1", "filter.unexpected", 3),
        ("a == $b", "filter.unexpected", 6),
        ("(a == 1", "filter.ended", 8),
        ("(a == 1 b", "filter.expected_close", 9),
        ("a == 1)", "filter.expected_and", 7),
        ("()", "filter.expected_key", 2),
        ("a in 1", "filter.expected_list", 6),
        ("a in [1 2]", "filter.expected_comma", 9),
        ("a in [1,", "filter.ended", 9),
        ("a in [,]", "filter.expected_value", 7),
        ("a in [[1]]", "filter.expected_value", 7),
        ("a == [1]", "filter.expected_value", 6),
        ("a not 1", "filter.expected_operator", 3),
        ("a is 1", "filter.expected_null", 6),
        ("a is not 1", "filter.expected_null", 10),
        ("not", "filter.ended", 4),
        ("and a == 1", "filter.expected_key", 1),
        ("d == 2024-02-30", "filter.time", 6),
        ("d == 2024-05-31T08:30:00", "filter.time", 6),
        ("d == 2024-05-31T25:00Z", "filter.time", 6),
        ("d == 0001-01-01T00:00+08:00", "filter.time", 6),
        ("(" * 41 + "a == 1", "filter.nested", 41),
        ("not " * 41 + "a == 1", "filter.nested", 161),
        ("a == 3X", "filter.unexpected", 6),
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
        ("a == 1 and", "filter.ended", 11),
        ("a ==", "filter.ended", 5),
        ("a", "filter.ended", 2),
        ("a == 9223372036854775808", "filter.number", 6),
        ("a == 1e999", "filter.number", 6),
        ("x" * (MAX_FILTER_LENGTH + 1), "filter.too_long", None),
        ("k" * 600 + " == 1", "filter.key_too_long", None),
        (" or ".join(["a == 1"] * (MAX_CLAUSES + 1)), "filter.too_many_at", 200 * 10 + 1),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, key: str, column: int | None) -> None:
    """A46"""
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


@pytest.mark.parametrize(
    ("held", "compared", "wanted", "expected"),
    [
        (1, "<", 2, True),
        (2, "<", 2, False),
        (2, "<=", 2.0, True),
        (1.5, ">", 1, True),
        (2**53 + 1, ">", 2.0**53, True),
        (True, ">=", 1, False),
        (1, "<", "2", False),
        ("10", "<", "9", True),
        ("Z", "<", "a", True),
        ("é", ">", "z", True),
        ("\uffff", "<", "😀", True),
        (False, "<", True, True),
        ((1, 9), ">", 5, True),
        ((1, 2), ">", 5, False),
        ((), "<=", 5, False),
        (datetime(2024, 1, 2, tzinfo=UTC), ">", datetime(2024, 1, 1, tzinfo=UTC), True),
        (datetime(2024, 1, 2, tzinfo=UTC), ">", datetime(2024, 1, 1), False),
        ("2024-01-02", ">", datetime(2024, 1, 1, tzinfo=UTC), False),
        (1, "<", float("inf"), False),
        ("a", "<", "\ud800", False),
    ],
)
def test_order_keeps_types_apart(
    held: MetadataValue, compared: Operator, wanted: Scalar, expected: bool
) -> None:
    assert matches(Compare("k", compared, wanted), {"k": held}) is expected
    assert matches(Not(Compare("k", compared, wanted)), {"k": held}) is not expected


def test_a_row_without_the_key_fails_comparisons_and_passes_their_negations() -> None:
    row: dict[str, MetadataValue] = {"other": 1}
    for text in ("k == 1", "k < 1", "k >= 1", "k in [1]", "k is not null"):
        assert not matches(parse(text), row), text
        assert matches(parse(f"not {text}"), row), text
    for text in ("k != 1", "k not in [1]", "k nin []", "k is null"):
        assert matches(parse(text), row), text
        assert not matches(parse(f"not {text}"), row), text
    # Not the other side of an order: 3 is in neither, a row without the key in both.
    assert not matches(parse("not k > 2"), {"k": 3})
    assert matches(parse("not k > 2 and not k <= 2"), row)


def test_negation_on_a_list_is_not_the_opposite_operator() -> None:
    row: dict[str, MetadataValue] = {"k": (1, 5)}
    assert matches(parse("k == 1"), row)
    assert not matches(parse("k != 1"), row)
    assert matches(parse("k < 2 and k > 4"), row)
    assert not matches(parse("not k < 2"), row)


def test_the_builder_and_the_text_give_the_same_tree() -> None:
    """A47"""
    for built, text in [
        (key("user_id") == "u7", "user_id == 'u7'"),
        (key("user_id").equals("u7"), "user_id == 'u7'"),
        (key("n") != 1, "n != 1"),
        (key("n").differs(1), "n != 1"),
        (key("n") < 1, "n < 1"),
        (key("n").below(1), "n < 1"),
        (key("n") <= 1, "n <= 1"),
        (key("n").at_most(1), "n <= 1"),
        (key("n") > 1, "n > 1"),
        (key("n").above(1), "n > 1"),
        (key("n") >= 1, "n >= 1"),
        (key("n").at_least(1), "n >= 1"),
        (key("n").one_of([1, 2]), "n in [1, 2]"),
        (key("n").none_of({1}), "n not in [1]"),
        (key("n").present(), "n is not null"),
        (key("n").missing(), "n is null"),
        ((key("a") == 1) & (key("b") > 2) | ~key("c").present(), "a == 1 and b > 2 or not c is not null"),
        (~((key("a") == 1) | (key("b") == 2)), "not (a == 1 or b == 2)"),
        (key("a b.c") == True, "'a b.c' == true"),  # noqa: E712
    ]:
        assert repr(checked_filter(built)) == repr(parse(text))


def test_a_filter_has_no_truth_so_that_none_is_lost_in_silence() -> None:
    with pytest.raises(InvalidFilter) as caught:
        _ = (key("a") == 1) and (key("b") == 2)
    assert caught.value.key == "filter.truth"
    with pytest.raises(InvalidFilter):
        _ = 1 < key("a") < 5
    with pytest.raises(InvalidFilter):
        key("a").one_of("abc")


@pytest.mark.parametrize(
    "tree",
    [
        Equal("a", None),  # type: ignore[arg-type]
        Equal("a", [1]),  # type: ignore[arg-type]
        Equal(7, 1),  # type: ignore[arg-type]
        Compare("a", "~", 1),  # type: ignore[arg-type]
        In("a", ({},)),  # type: ignore[arg-type]
        And(Equal("a", 1), "a == 1"),  # type: ignore[arg-type]
        Not(None),  # type: ignore[arg-type]
        Equal("a", "x" * 40_000),
        In("a", tuple(range(MAX_VALUES + 1))),
    ],
)
def test_a_malformed_tree_is_refused(tree: Filter) -> None:
    with pytest.raises(InvalidFilter):
        checked_filter(tree)


def test_a_tree_built_in_code_meets_the_same_limits() -> None:
    negated: Filter = Equal("a", 1)
    for _ in range(MAX_DEPTH - 1):
        negated = Not(negated)
    assert checked_filter(negated) is negated
    with pytest.raises(InvalidFilter):
        checked_filter(Not(negated))
    clauses: list[Filter] = [Equal("a", n) for n in range(MAX_CLAUSES)]
    assert checked_filter(reduce(And, clauses)) is not None
    with pytest.raises(InvalidFilter):
        checked_filter(reduce(And, [*clauses, Equal("a", 1), Equal("a", 2)]))
    deep: Filter = Equal("a", 1)
    for _ in range(50_000):
        deep = And(deep, Equal("a", 1))
    with pytest.raises(InvalidFilter):
        checked_filter(deep)
    with pytest.raises(InvalidFilter):
        checked_filter(Equal("k" * 513, 1))


def test_the_longest_chain_in_the_deepest_nesting_can_be_read() -> None:
    chain = " and ".join(["a == 1"] * MAX_CLAUSES)
    tree = parse("(" * MAX_NESTING + chain + ")" * MAX_NESTING)
    assert matches(tree, {"a": 1})
    inner = "a == 1"
    for _ in range(MAX_NESTING):
        inner = f"a == 2 or ({inner} or a == 3)"
    assert matches(parse(inner), {"a": 1})


@settings(deadline=None)
@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(
            [
                "a",
                "'b'",
                "==",
                "!=",
                "<",
                "(",
                ")",
                "[",
                "]",
                ",",
                "and",
                "or",
                "not",
                "in",
                "nin",
                "is",
                "null",
                "1",
                "-2.5",
                "true",
                "2024-05-31",
            ]
        ),
        max_size=14,
    ).map(" ".join)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InvalidFilter):
        checked_filter(parse(text))


@settings(deadline=None)
@given(key=st.text(min_size=1, max_size=20), value=st.text(max_size=40))
def test_any_key_and_value_can_be_written_in_quotes(key: str, value: str) -> None:
    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    assert parse(f"{quoted(key)} == {quoted(value)}") == Equal(key, value)
