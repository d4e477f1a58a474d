"""docs/acceptance.md is what the tests say, and no row is without an answer."""

from __future__ import annotations

import ast

import acceptance_table as table
from acceptance_table import Rows


def named(source: str) -> set[str]:
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    return table.named_rows(function)


def test_the_committed_page_is_what_the_script_makes() -> None:
    assert table.TABLE.read_text(encoding="utf-8") == table.table(), "run: make acceptance"


def test_every_row_has_a_test_or_a_reason() -> None:
    rows, proved = table.read_rows(), table.proofs()
    assert [row for row in rows.ids if not table.state(row, rows, proved)] == []


def test_tests_name_rows_that_exist() -> None:
    rows = set(table.read_rows().ids)
    strangers = {row: by_file for row, by_file in table.proofs().items() if row not in rows}
    assert strangers == {}


def test_all_groups_of_rows_are_there_without_a_gap() -> None:
    rows = table.read_rows()
    assert rows.ids == [
        *(f"A{n:02}" for n in range(1, 102)),
        *(f"W{n:02}" for n in range(1, 35)),
        *(f"D{n}" for n in range(1, 11)),
        *(f"C{n}" for n in range(1, 52)),
    ]
    assert set(rows.lacks) <= set(rows.ids)


def test_a_name_and_a_docstring_name_rows_as_words() -> None:
    assert named("def test_a39_and_W02(): pass") == {"A39", "W02"}
    assert named("def test_x():\n '''Rows A100, D7 and (C5).'''") == {"A100", "D7", "C5"}
    assert named("def test_x():\n '''A 4 sheet, XA39, A390x, C1234, b12'''\n 'W02'") == set()


def test_a_row_is_proved_open_or_both() -> None:
    rows = Rows(
        groups={"A": "Group"},
        titles={"A": {"A01": "one"}},
        lacks={"A02": "later", "A03": "half"},
    )
    proved = {row: {"tests/unit/test_x.py": ["test_y"]} for row in ("A01", "A03")}
    shown = [table.state(row, rows, proved) for row in ("A01", "A02", "A03", "A04")]
    link = "[test_x](../tests/unit/test_x.py): `test_y`"
    assert shown == [link, "open: later", f"{link}. Open: half", ""]
