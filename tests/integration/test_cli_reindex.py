"""`ragstone reindex --index`: an index of the settings is filled, used, and done without when it is gone."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine, Inside

from ragstone.cli.shapes import degraded_text
from ragstone.errors import InvalidSetting
from ragstone.kb.settings import load
from ragstone.testing.databases import temporary_database
from services import free_port


@pytest.fixture
def database(embedded_database: str) -> Iterator[dict[str, str]]:
    """A database of its own: an index is told of every later change in the one it was named for."""
    with temporary_database(embedded_database) as conninfo:
        yield {"RAGSTONE_DATABASE_URL": conninfo}


def test_an_index_is_filled_and_filled_again(
    ragstone: CommandLine, database: dict[str, str], tmp_path: Path
) -> None:
    """A29: vectors in Milvus by settings alone; `reindex` copies them from PostgreSQL."""
    for n in range(3):
        (tmp_path / f"{n}.txt").write_text(f"The otter number {n} lives by the river.")
    files = [tmp_path / f"{n}.txt" for n in range(3)]
    assert ragstone("add", *files, "--base", "otters", **database).code == 0
    milvus = {"RAGSTONE_VECTOR_INDEX": "milvus", "RAGSTONE_VECTOR_INDEX_URL": str(tmp_path / "index.db")}
    milvus |= database
    filled = ragstone("reindex", "--index", "milvus", "--json", **milvus)
    assert (filled.code, filled.err) == (0, "")
    values = json.loads(filled.out)
    assert set(values) == {"index", "vectors"}
    assert values["vectors"] >= 3
    told = ragstone("reindex", "--index", "milvus", RAGSTONE_LANG="zh", **milvus)
    assert f"索引 milvus 现有 {values['vectors']:,} 个向量" in told.out
    found = ragstone("search", "otter", "--base", "otters", "--json", **milvus)
    assert len(json.loads(found.out)["hits"]) == 3
    assert json.loads(found.out)["degraded"] == []


def test_an_index_that_does_not_answer_stops_nothing_but_its_filling(
    ragstone: CommandLine, database: dict[str, str], tmp_path: Path
) -> None:
    """D7: what is removed meanwhile cannot be proved gone, and why is said in both languages."""
    redis = {
        "RAGSTONE_VECTOR_INDEX": "redis",
        "RAGSTONE_VECTOR_INDEX_URL": f"redis://:secret@127.0.0.1:{free_port()}/0",
        **database,
    }
    (tmp_path / "otter.txt").write_text("The otter lives by the river.")
    assert ragstone("add", tmp_path / "otter.txt", "--base", "otters", **redis).code == 0
    ended = ragstone("reindex", "--index", "redis", **redis)
    assert ended.code == 1
    assert "redis:127.0.0.1" in ended.err
    assert "secret" not in ended.err
    (document_id,) = ragstone("rm", "otter.txt", "--base", "otters", "--json", **redis).json["document_ids"]
    proof = ragstone("verify-deleted", document_id, "--json", **redis)
    assert (proof.code, proof.json["complete"], set(proof.json["left"].values())) == (1, False, {0})
    assert proof.json["untold"] >= 1
    assert "vector index outside" in ragstone("verify-deleted", document_id, **redis).out
    assert "外部向量索引" in ragstone("verify-deleted", document_id, RAGSTONE_LANG="zh", **redis).out
    shown = ragstone("config", **redis)
    assert "secret" not in shown.out
    assert "127.0.0.1" in shown.out


@pytest.mark.parametrize("code", ["index_failed", "index_incomplete"])
def test_each_mark_of_an_index_is_a_sentence(code: str) -> None:
    assert degraded_text(code) != degraded_text("another").replace("another", code)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reindex"], "ragstone reindex --index NAME"),
        (["reindex", "--index", "milvus"], "milvus"),
        (["reindex", "--index", "milvus", "--base", "b"], "an index alone"),
        (["reindex", "--index", "milvus", "--rollback"], "an index alone"),
        (["reindex", "--index", "milvus", "--collect"], "an index alone"),
        (["reindex", "--index", "milvus", "--golden", "questions"], "an index alone"),
        (["reindex", "--rollback"], "Name a base"),
        (["reindex", "--base", "b", "--rollback", "--collect"], "at most one of"),
    ],
)
def test_what_cannot_be_built_is_told(arguments: list[str], words: str, inside: Inside) -> None:
    ended = inside(*arguments)
    assert ended.code == 2
    assert words in ended.err


@pytest.mark.parametrize(
    "settings",
    [
        {"vector_index": "milvus"},
        {"vector_index_url": "redis://h"},
        {"vector_index": "other", "vector_index_url": "x"},
    ],
)
def test_index_and_address_go_together(settings: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting) as caught:
        load({}, overrides={"home": tmp_path, **settings})
    assert "vector_index" in str(caught.value)


def test_the_example_of_the_page_on_indexes_runs() -> None:
    page = (Path(__file__).parents[2] / "docs/indexes.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(example, "docs/indexes.md", "exec"), {"__name__": "__example__"})
    assert shown.getvalue() == "['hammer']\n"
