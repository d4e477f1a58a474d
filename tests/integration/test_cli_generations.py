"""`ragstone reindex` and `verify-deleted`: other settings, kill -9, roll-back, golden set, proof."""

from __future__ import annotations

import json
import signal
import uuid
from pathlib import Path

import pytest
from command_line import TIMEOUT, CommandLine

SMALL = {"RAGSTONE_CHUNK_SIZE": "40", "RAGSTONE_CHUNK_OVERLAP": "0"}


@pytest.fixture
def base() -> str:
    """The name of a base that no other test uses."""
    return f"r-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for n in range(30):
        lines = [f"Harbour {n} has a ferry to island {n}-{line}." for line in range(40)]
        (folder / f"note{n}.md").write_text(f"# Note {n}\n\n" + "\n\n".join(lines), encoding="utf-8")
    return folder


def state(ragstone: CommandLine, base: str) -> dict[str, object]:
    return ragstone("list", "--base", base, "--json").json["bases"][0]


def hits(ragstone: CommandLine, base: str, **settings: str) -> list[dict[str, object]]:
    ended = ragstone("search", "ferry to island 7-3", "--base", base, "--json", **settings)
    assert ended.code == 0, ended.err
    assert ended.json["degraded"] == []
    return ended.json["hits"]


def test_other_settings_are_applied_rolled_back_and_collected(
    ragstone: CommandLine, base: str, folder: Path
) -> None:
    """A31, W09: the texts are split anew without their files; what is stored counts as unchanged."""
    assert ragstone("add", folder, "--base", base).code == 0
    before = state(ragstone, base)
    same = ragstone("reindex", "--base", base, "--json").json
    assert (same["swapped"], same["generation_id"]) == (False, before["generation_id"])
    moved = folder.rename(folder.with_name("moved"))
    result = ragstone("reindex", "--base", base, "--json", **SMALL).json
    assert result["swapped"]
    after = state(ragstone, base)
    assert after["documents"] == before["documents"] == 30
    assert after["chunks"] == result["chunks"] > before["chunks"]
    assert hits(ragstone, base)
    moved.rename(folder)
    again = ragstone("add", folder, "--base", base, "--json", **SMALL).events[-1]
    assert again["unchanged"] == 30
    # With the settings as they were, a line says that they are not the base's.
    (folder / "more.md").write_text("One more note.")
    assert "ragstone reindex" in ragstone("add", folder, "--base", base).err
    back = ragstone("reindex", "--base", base, "--rollback", "--json").json
    assert (back["generation_id"], back["documents"]) == (before["generation_id"], 31)
    assert ragstone("reindex", "--base", base, "--collect", "--json").json["collected"] == 1
    assert ragstone("reindex", "--base", base, "--rollback").code == 3
    assert hits(ragstone, base)


@pytest.mark.parametrize("built", [1, 20])
def test_a_build_that_was_killed_goes_on_and_the_old_generation_answers(
    ragstone: CommandLine, base: str, folder: Path, built: int
) -> None:
    """D1, C4: kill -9 at several moments."""
    assert ragstone("add", folder, "--base", base).code == 0
    before = hits(ragstone, base)
    process = ragstone.start("reindex", "--base", base, settings=SMALL)
    try:
        wait_for_building(ragstone, base, built)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
        process.communicate()
    interrupted = state(ragstone, base)["generation_id"]
    found = hits(ragstone, base)
    assert found
    result = ragstone("reindex", "--base", base, "--json", **SMALL)
    assert result.code == 0, result.out
    assert result.json["documents"] == 30
    assert len(hits(ragstone, base)) == len(before)
    # Killed before the swap, the old one answered; the build then had less to do.
    if result.json["swapped"]:
        assert result.json["before"]["generation_id"] == interrupted
        assert [hit["chunk_id"] for hit in found] == [hit["chunk_id"] for hit in before]


def wait_for_building(ragstone: CommandLine, base: str, documents: int) -> None:
    """Until the new generation holds so many documents, or has taken over."""
    import psycopg

    from ragstone.postgres.cluster import Cluster

    cluster = Cluster(ragstone.home)
    cluster.attach(lambda key, values: None)
    try:
        with psycopg.connect(cluster.conninfo(), autocommit=True) as connection:
            for _ in range(20_000):
                row = connection.execute(
                    "SELECT count(*) FROM generation_documents h JOIN generations g USING (generation_id)"
                    " JOIN bases b USING (base_id) WHERE b.name = %s AND g.generation_id >"
                    " (SELECT min(f.generation_id) FROM generations f WHERE f.base_id = b.base_id)",
                    [base],
                ).fetchone()
                if row is not None and row[0] >= documents:
                    return
    finally:
        cluster.release()
    pytest.fail("nothing was built")


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    folder = tmp_path / "golden"
    folder.mkdir()
    queries = [{"id": f"q{n}", "text": f"ferry of harbour {n} to island {n}-39"} for n in range(0, 30, 3)]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    rows = "".join(f"q{n}\tnote{n}.md\t1\n" for n in range(0, 30, 3))
    (folder / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    return folder


def test_a_golden_set_passes_a_good_generation(
    ragstone: CommandLine, base: str, folder: Path, golden: Path
) -> None:
    """D1, C20: the questions are asked of both generations before the swap."""
    assert ragstone("add", folder, "--base", base).code == 0
    ended = ragstone("reindex", "--base", base, "--golden", golden, "--json", **SMALL)
    assert (ended.code, ended.json["swapped"]) == (0, True)


def test_what_was_removed_can_be_proved_gone(ragstone: CommandLine, base: str, folder: Path) -> None:
    """D7: the report counts every table; the proof is repeated by id, and names what is left."""
    assert ragstone("add", folder, "--base", base).code == 0
    assert ragstone("reindex", "--base", base, **SMALL).code == 0
    removed = ragstone("rm", "note3.md", "--base", base, "--json").json
    (document_id,) = removed["document_ids"]
    assert removed["rows"]["generation_documents"] == 2
    assert removed["rows"]["chunks"] == removed["rows"]["vectors"] > 2
    proof = ragstone("verify-deleted", document_id, "--json")
    assert (proof.code, proof.json["complete"], proof.json["deleted"]) == (0, True, removed["rows"])
    assert set(proof.json["left"].values()) == {0}
    assert "Nothing is left" in ragstone("verify-deleted", document_id).out
    assert ragstone("verify-deleted", "never-was").code == 3
    assert "verify-deleted" in ragstone("rm", "note4.md", "--base", base).out
    assert ragstone("add", folder / "note3.md", "--base", base).code == 0
    left = ragstone("verify-deleted", document_id)
    assert (left.code, "chunks" in left.out) == (1, True)


@pytest.mark.parametrize("arguments", [[], ["--base", "x", "--rollback", "--collect"]])
def test_wrong_usage_is_said(light: CommandLine, arguments: list[str]) -> None:
    assert light("reindex", *arguments).code == 2
