"""`ragstone sync` with the real command: the base equals its source afterwards (A33, W08)."""

from __future__ import annotations

import json
import os
import signal
import uuid
from pathlib import Path
from typing import Any

import pytest
from command_line import TIMEOUT, CommandLine, Ended

from making import zipped
from web_site import Page, running_site


@pytest.fixture
def base() -> str:
    return f"b-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "源 source"
    (folder / "sub").mkdir(parents=True)
    (folder / "one.md").write_text("# One\n\nThe first note is about ferries.\n")
    (folder / "two.txt").write_text("The second note is about herons.\n")
    (folder / "sub" / "三.md").write_text("# 三\n\n第三条笔记讲的是白鹭。\n")
    return folder


def summary(ended: Ended) -> Any:
    return ended.events[-1]


def uris(ragstone: CommandLine, base: str) -> set[str]:
    listed = ragstone("list", "--base", base, "--json").json["documents"]
    return {info["uri"] for info in listed}


def counts(result: Any) -> tuple[int, ...]:
    return tuple(result[name] for name in ("added", "updated", "unchanged", "deleted", "failed"))


def test_what_is_new_changed_and_gone(ragstone: CommandLine, folder: Path, base: str) -> None:
    """A33, C1, C3, C6, C7: re-running doubles nothing and misses no deletion."""
    first = ragstone("sync", folder, "--base", base, "--json")
    assert (first.code, counts(summary(first))) == (0, (3, 0, 0, 0, 0))
    again = ragstone("sync", folder, "--base", base, "--json")
    assert counts(summary(again)) == (0, 0, 3, 0, 0)

    (folder / "one.md").write_text("# One\n\nThe first note is about trains now.\n")
    (folder / "two.txt").unlink()
    (folder / "new.md").write_text("# New\n\nA fourth note.\n")
    plan = ragstone("sync", folder, "--base", base, "--dry-run", "--json")
    assert plan.code == 0
    assert counts(summary(plan)) == (1, 1, 1, 1, 0)
    assert (summary(plan)["embedded"], summary(plan)["reused"], summary(plan)["chunks_deleted"]) == (2, 0, 2)
    assert summary(plan)["deleted_rows"] == {}
    assert (folder / "two.txt").as_uri() in uris(ragstone, base), "a plan changes nothing"
    assert counts(summary(ragstone("sync", folder, "--base", base, "--dry-run", "--json"))) == (1, 1, 1, 1, 0)

    done = summary(ragstone("sync", folder, "--base", base, "--json"))
    assert counts(done) == (1, 1, 1, 1, 0)
    assert done["gone"] == [(folder / "two.txt").as_uri()]
    assert {done["deleted_rows"][table] for table in ("documents", "chunks", "vectors")} == {1}
    assert uris(ragstone, base) == {path.as_uri() for path in folder.rglob("*.*")}
    assert ragstone("search", "herons", "--mode", "text", "--base", base).code == 3


def test_a_plan_with_other_settings_leaves_those_of_the_base(
    ragstone: CommandLine, folder: Path, base: str
) -> None:
    """A33: `--dry-run` changes nothing, not even what the base says it was made with."""
    ragstone("sync", folder, "--base", base)
    for _ in range(2):
        plan = ragstone("sync", folder, "--base", base, "--dry-run", RAGSTONE_CHUNK_SIZE="40")
        assert "ragstone reindex" in plan.err
    assert not ragstone("reindex", "--base", base, "--json").json["swapped"]


def test_a_rename_costs_no_embedding(ragstone: CommandLine, folder: Path, base: str) -> None:
    (folder / "one.md").write_text("The first note is about ferries.\n")  # no title: its name is not embedded
    ragstone("sync", folder, "--base", base)
    (folder / "one.md").rename(folder / "sub" / "renamed.md")
    plan = summary(ragstone("sync", folder, "--base", base, "--dry-run", "--json"))
    done = summary(ragstone("sync", folder, "--base", base, "--json"))
    for result in (plan, done):
        assert counts(result) == (1, 0, 2, 1, 0)
        assert (result["embedded"], result["reused"], result["tokens"]) == (0, 1, 0)


def test_other_documents_of_the_base_are_not_touched(
    ragstone: CommandLine, folder: Path, base: str, tmp_path: Path
) -> None:
    beside = tmp_path / "源 source 2"
    beside.mkdir()
    (beside / "kept.md").write_text("Beside the folder.\n")
    ragstone("add", beside, folder, "--base", base)
    (folder / "one.md").unlink()
    (folder / "two.txt").unlink()
    done = summary(ragstone("sync", folder, "--base", base, "--glob", "*.md", "--json"))
    assert done["gone"] == [(folder / "one.md").as_uri()], "the pattern does not fit two.txt"
    assert summary(ragstone("sync", folder, "--base", base, "--json"))["deleted"] == 1
    assert uris(ragstone, base) == {(beside / "kept.md").as_uri(), (folder / "sub" / "三.md").as_uri()}


def test_an_empty_source_never_empties_a_base(ragstone: CommandLine, folder: Path, base: str) -> None:
    """A disk that is not mounted is an empty folder."""
    ragstone("sync", folder, "--base", base)
    away = folder.rename(folder.with_name("away"))
    assert ragstone("sync", folder, "--base", base).code == 2
    folder.mkdir()
    refused = ragstone("sync", folder, "--base", base)
    assert refused.code == 2
    assert "3 document(s)" in refused.err
    assert "--allow-empty" in refused.err
    assert len(uris(ragstone, base)) == 3
    assert counts(summary(ragstone("sync", folder, "--base", base, "--allow-empty", "--json"))) == (
        0,
        0,
        0,
        3,
        0,
    )
    folder.rmdir()
    away.rename(folder)


def test_a_file_that_cannot_be_read_keeps_its_document(
    ragstone: CommandLine, folder: Path, base: str
) -> None:
    ragstone("sync", folder, "--base", base)
    (folder / "one.md").write_bytes(b"\x00\x01\x02\x03" * 100)
    (folder / "two.txt").write_bytes(b"")
    done = ragstone("sync", folder, "--base", base, "--json")
    assert (done.code, counts(summary(done))) == (1, (0, 0, 1, 0, 2))
    assert len(uris(ragstone, base)) == 3
    assert ragstone("search", "ferries", "--mode", "text", "--base", base).code == 0


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_folder_that_cannot_be_listed_keeps_its_documents(
    ragstone: CommandLine, folder: Path, base: str
) -> None:
    ragstone("sync", folder, "--base", base)
    (folder / "sub").chmod(0)
    try:
        done = ragstone("sync", folder, "--base", base, "--json")
    finally:
        (folder / "sub").chmod(0o755)
    assert (done.code, counts(summary(done))) == (1, (0, 0, 2, 0, 1))
    assert len(uris(ragstone, base)) == 3


def test_members_belong_to_their_container(ragstone: CommandLine, folder: Path, base: str) -> None:
    box = folder / "box.zip"
    box.write_bytes(zipped({"a.txt": "In the box: alpha.", "b.txt": "In the box: beta."}))
    ragstone("sync", folder, "--base", base)
    box.write_bytes(zipped({"a.txt": "In the box: alpha."}))
    for mode in (("--dry-run",), ()):
        done = summary(ragstone("sync", folder, "--base", base, "--json", *mode))
        assert done["gone"] == [f"{box.as_uri()}!/b.txt"]
    assert done["deleted_rows"]["documents"] == 1
    box.unlink()
    done = summary(ragstone("sync", folder, "--base", base, "--json"))
    assert done["gone"] == [box.as_uri(), f"{box.as_uri()}!/a.txt"]
    assert len(uris(ragstone, base)) == 3


def test_links_out_of_the_folder_are_no_part_of_it(
    ragstone: CommandLine, folder: Path, base: str, tmp_path: Path
) -> None:
    (tmp_path / "outside.txt").write_text("Outside.")
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    done = summary(ragstone("sync", folder, "--base", base, "--json"))
    assert (done["added"], done["outside"]) == (3, 1)


def test_a_sync_cut_short_goes_on_and_two_at_once_end_well(
    ragstone: CommandLine, tmp_path: Path, base: str
) -> None:
    """C8, W08: what was there stays searchable until everything new is stored."""
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(120):
        words = " ".join(f"word{number}x{index}" for index in range(300))
        (folder / f"{number:03}.md").write_text(f"# Note {number}\n\n{words}\n")
    (folder / "999.md").write_text("gone soon")
    ragstone("add", folder / "999.md", "--base", base)
    (folder / "999.md").unlink()
    process = ragstone.start("sync", folder, "--base", base, "--json")
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line).get("status") == "ready":
            break
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=TIMEOUT)
    held = uris(ragstone, base)
    assert (folder / "999.md").as_uri() in held
    running = [ragstone.start("sync", folder, "--base", base, "--json") for _ in range(2)]
    for other in running:
        out, err = other.communicate(timeout=TIMEOUT)
        assert other.returncode == 0, err
        assert json.loads(out.splitlines()[-1])["failed"] == 0
    assert uris(ragstone, base) == {path.as_uri() for path in folder.iterdir()}
    assert counts(summary(ragstone("sync", folder, "--base", base, "--json"))) == (0, 0, 120, 0, 0)


def test_a_sitemap_is_a_source(ragstone: CommandLine, base: str) -> None:
    """A13, A33: pages that left the sitemap leave the base; unchanged ones are not sent again."""
    allowed = {"RAGSTONE_WEB_ALLOW_PRIVATE": "true"}
    with running_site() as site:
        site.html("/a", "Alpha page about herons.", etag='"a1"')
        site.html("/b", "Beta page about ferries.")
        site.sitemap("/sitemap.xml", f"{site.url}/a", f"{site.url}/b")
        source = f"{site.url}/sitemap.xml"
        assert ragstone("add", f"{site.url}/a", "--base", base).code == 1
        first = summary(ragstone("sync", source, "--base", base, "--json", **allowed))
        assert counts(first) == (2, 0, 0, 0, 0)
        site.asked.clear()
        again = summary(ragstone("sync", source, "--base", base, "--json", **allowed))
        assert counts(again) == (0, 0, 2, 0, 0)
        assert [headers.get("if-none-match") for path, headers in site.asked if path == "/a"] == ['"a1"']
        site.sitemap("/sitemap.xml", f"{site.url}/a")
        done = summary(ragstone("sync", source, "--base", base, "--json", **allowed))
        assert done["gone"] == [f"{site.url}/b"]
        site.pages["/sitemap.xml"] = Page(status=503)
        broken = ragstone("sync", source, "--base", base, "--json", **allowed)
        assert (broken.code, summary(broken)["deleted"]) == (1, 0)
        assert uris(ragstone, base) == {f"{site.url}/a"}


def test_what_people_read(ragstone: CommandLine, folder: Path, base: str) -> None:
    plan = ragstone("sync", folder, "--base", base, "--dry-run")
    assert "Plan; nothing was changed." in plan.out
    assert f"Base {base}: added 3, updated 0, unchanged 0, deleted 0, failed 0" in plan.out
    assert ragstone("list", "--base", base).code != 0, "the base was not made"
    ragstone("sync", folder, "--base", base)
    (folder / "two.txt").unlink()
    planned = ragstone("sync", folder, "--base", base, "--dry-run")
    assert "To be deleted, since they are gone" in planned.out
    assert "Deleted," not in planned.out
    done = ragstone("sync", folder, "--base", base, RAGSTONE_LANG="zh")
    assert "因已不存在而删除" in done.out
    assert str(folder / "two.txt") in done.out
    assert ragstone("sync", folder).code == 2
    assert ragstone("sync", "s3://bucket/x", "--base", base).code == 2
