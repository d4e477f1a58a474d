"""What people and programs leave in folders: each file is read, or refused with a reason (C13, C14)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.request import url2pathname

import pytest

from ragstone.errors import ContentError, ContentTooLarge, NoText
from ragstone.load.files import files, listing
from ragstone.load.strings import strings
from ragstone.types import Blob, LoadFailure

pytestmark = pytest.mark.anyio


async def load(source: Path, **options: object) -> dict[str, Blob | LoadFailure]:
    return {item.name: item async for item in files(str(source), **options)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    ["长" * 85, "n" * 251 + ".md", "two\nlines.txt", "tab\t.txt", "😀 émoji.txt", "..txt..", "%2e%2f.txt",
     "a\\b.txt", "C:x.txt", "a!.zip", "'\"$(x).txt", "-rf.txt"],
)  # fmt: skip
async def test_any_name_that_a_file_can_have(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    if name.startswith("."):  # hidden in a folder, but read when it is named
        file.write_text("text")
        (item,) = [item async for item in files(str(file))]
    else:
        file.write_text("text")
        (item,) = (await load(tmp_path)).values()
    assert isinstance(item, Blob)
    assert (item.name, item.data) == (name, b"text")
    assert item.uri.isascii()
    assert "!/" not in item.uri
    assert Path(url2pathname(item.uri.removeprefix("file://"))) == file


async def test_a_file_of_2_gb_is_refused_without_reading_it(tmp_path: Path) -> None:
    """C14: refused by the limit, in no time and no memory."""
    with (tmp_path / "huge.log").open("wb") as huge:
        huge.truncate(2 * 1024**3)
    (item,) = (await load(tmp_path)).values()
    assert isinstance(item, LoadFailure)
    assert isinstance(item.error, ContentTooLarge)
    assert "2,147,483,648 bytes" in str(item.error)
    assert "RAGSTONE_MAX_FILE_MB" in item.error.text("zh")


async def test_a_file_that_changes_while_the_folder_is_read(tmp_path: Path) -> None:
    """It is read as it is at its turn: grown over the limit, emptied, gone, made a folder, written anew."""
    for name in "abcdef":
        (tmp_path / name).write_text("before")
    found: dict[str, Blob | LoadFailure] = {}
    async for item in files(str(tmp_path), max_bytes=50):
        found[item.name] = item
        if item.name == "a":
            (tmp_path / "b").write_text("x" * 51)
            (tmp_path / "c").write_text("")
            (tmp_path / "d").unlink()
            (tmp_path / "e").unlink()
            (tmp_path / "e").mkdir()
            (tmp_path / "f").write_text("after")
    kinds = {name: type(item.error) for name, item in found.items() if isinstance(item, LoadFailure)}
    assert kinds.pop("d", ContentError) is ContentError
    assert kinds.pop("e", ContentError) is ContentError
    assert kinds == {"b": ContentTooLarge, "c": NoText}
    last = found["f"]
    assert isinstance(last, Blob)
    assert last.data == b"after"


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root to become someone else")
def test_what_may_not_be_read_is_told_to_someone_who_is_not_root(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents[:3]:  # with several test processes there is one more
        folder.chmod(folder.stat().st_mode | 0o055)
    locked = tmp_path / "locked"
    locked.mkdir(mode=0)
    (tmp_path / "secret.txt").write_text("x")
    (tmp_path / "secret.txt").chmod(0)
    (tmp_path / "good.txt").write_text("x")
    code = """
import os, sys, anyio
from ragstone.load.files import files, listing
from ragstone.errors import SourceNotFound
async def main():
    async for item in files(sys.argv[1]):
        print(item.name, getattr(getattr(item, "error", None), "key", "read"))
    print(len((await listing(sys.argv[1])).unreadable))
async def warm():  # what is imported late lies where only root may read
    try:
        await listing("/no/such/folder")
    except SourceNotFound:
        pass
anyio.run(warm)
os.setgid(65534); os.setuid(65534)
anyio.run(main)
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.splitlines() == [
        "good.txt read", "locked load.unreadable", "secret.txt load.unreadable", "1",
    ]  # fmt: skip


async def test_a_listing_names_what_reading_would_give(tmp_path: Path) -> None:
    """A12: a folder with and without what is below it, by name and by path."""
    for name in ("a.md", "sub/b.md", "sub/deep/c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    root = tmp_path.as_uri()
    cases: list[tuple[dict[str, object], list[str]]] = [
        ({}, ["a.md", "sub/b.md", "sub/deep/c.txt"]),
        ({"recursive": False}, ["a.md"]),
        ({"glob": "*.md"}, ["a.md", "sub/b.md"]),
        ({"glob": "**/deep/*"}, ["sub/deep/c.txt"]),
        ({"glob": "sub/*.md"}, ["sub/b.md"]),
    ]
    for options, expected in cases:
        found = await listing(str(tmp_path), **options)  # type: ignore[arg-type]
        assert sorted(found.uris) == [f"{root}/{name}" for name in expected]
        assert {item.uri for item in (await load(tmp_path, **options)).values()} == found.uris


async def test_strings_are_a_source_too() -> None:
    """A13: plain strings, identified by their content or by the uri given."""
    first, second = [blob async for blob in strings("Alpha.", "贝塔。", name="note.md")]
    assert (first.name, second.data) == ("note.md", "贝塔。".encode())
    assert first.uri == f"sha256:{first.content_hash}"
    named = [blob.uri async for blob in strings("a", "b", uri="memo:1", metadata={"year": 2024})]
    assert named == ["memo:1", "memo:1#2"]
