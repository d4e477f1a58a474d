"""Named blocks of SQL."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("psycopg")

from psycopg.sql import Literal

from ragstone.postgres.queries import Queries


def folder(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        (tmp_path / f"{name}.sql").write_text(text, encoding="utf-8")
    return tmp_path


def test_blocks_of_all_files_are_found_by_name(tmp_path: Path) -> None:
    queries = Queries.load(
        folder(
            tmp_path,
            a="-- About this file.\n\n-- name: one\n-- 100% sure\nSELECT 1;\n\n-- name: two\nSELECT %(x)s\n",
            b="-- name: three\nSELECT 3",
        )
    )

    assert {name: queries[name].as_string(None) for name in queries} == {
        "one": "SELECT 1",
        "two": "SELECT %(x)s",
        "three": "SELECT 3",
    }


def test_an_integer_is_formatted_into_a_block(tmp_path: Path) -> None:
    queries = Queries.load(folder(tmp_path, a="-- name: near\nSELECT 1 WHERE model_id = {model_id}"))

    text = queries["near"].format(model_id=Literal(7)).as_string(None)

    assert text == "SELECT 1 WHERE model_id = 7"


def test_an_unknown_name_says_which_there_are(tmp_path: Path) -> None:
    queries = Queries.load(folder(tmp_path, a="-- name: one\nSELECT 1"))

    with pytest.raises(KeyError, match="no SQL block 'two'; there are one"):
        queries["two"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT 0;\n-- name: one\nSELECT 1",
        "-- name: one\nSELECT 1\n-- name: one\nSELECT 2",
        "-- name: one\n-- nothing\n",
        "-- name: \nSELECT 1",
        "-- name: one-two\nSELECT 1",
    ],
)
def test_a_malformed_file_fails_when_it_is_loaded(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"a\.sql"):
        Queries.load(folder(tmp_path, a=text))
