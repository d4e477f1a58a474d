"""A Markdown table of an answer is drawn on a terminal, however its text comes."""

from __future__ import annotations

import pytest

from ragstone.cli.tables import Table, TableReader

TEXT = (
    "Fares:\n\n| trip | adult |\n|---|---|\n| Brell | 12 | [1]\n| a\\|b |  | [2]\n\nThat is | all.\n| last |"
)


@pytest.mark.parametrize("cut", [1, 3, 1_000])
def test_text_and_tables_come_in_order(cut: int) -> None:
    reader = TableReader()
    found: list[str | Table] = []
    for at in range(0, len(TEXT), cut):
        found += reader.feed(TEXT[at : at + cut])
    found += reader.finish()
    tables = [part for part in found if isinstance(part, Table)]
    assert tables == [
        Table(header=["trip", "adult", ""], rows=[["Brell", "12", "[1]"], ["a|b", "", "[2]"]]),
        Table(header=[], rows=[["last"]]),
    ]
    text = "".join(part for part in found if isinstance(part, str))
    assert text == "Fares:\n\n\nThat is | all.\n"


def test_a_row_is_held_until_its_end_and_text_is_not() -> None:
    reader = TableReader()
    assert list(reader.feed("A word")) == ["A word"]
    assert list(reader.feed(" more\n| a ")) == [" more\n"]
    assert list(reader.feed("|\nnext")) == [Table(header=[], rows=[["a"]]), "next"]
