"""Files and folders as a stream of blobs."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from ragstone.errors import ContentError, ContentTooLarge, InputError, NoText, SourceNotFound
from ragstone.load.files import files, listing, scan
from ragstone.types import Blob, LoadFailure

pytestmark = pytest.mark.anyio


def write(folder: Path, *names: str, text: str = "text") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


async def load(source: Path | str, **options: object) -> list[Blob | LoadFailure]:
    return [item async for item in files(str(source), **options)]  # pyright: ignore


async def names(source: Path | str, **options: object) -> list[str]:
    return [item.name for item in await load(source, **options)]


async def failure(source: Path, **options: object) -> ContentError:
    (item,) = await load(source, **options)
    assert isinstance(item, LoadFailure)
    assert isinstance(item.error, ContentError)
    assert item.name in str(item.error)
    return item.error


async def test_a_folder_is_read_by_name_with_everything_below_it(tmp_path: Path) -> None:
    """A12: folders, recursive and not."""
    write(tmp_path, "b.txt", "a/z.md", "a/deep/er/c.txt", "c.txt")
    assert await names(tmp_path) == ["c.txt", "z.md", "b.txt", "c.txt"]
    assert await names(tmp_path, recursive=False) == ["b.txt", "c.txt"]


async def test_a_blob_has_its_content_address_and_time(tmp_path: Path) -> None:
    write(tmp_path, "季度 报告#1%.txt", text="内容")
    (item,) = await load(tmp_path)
    assert isinstance(item, Blob)
    assert item.data == "内容".encode()
    assert item.name == "季度 报告#1%.txt"
    assert item.uri == (tmp_path.resolve() / item.name).as_uri()
    assert item.modified is not None
    assert item.modified.tzinfo is not None


async def test_one_file_is_read_even_where_a_folder_would_skip_it(tmp_path: Path) -> None:
    write(tmp_path, ".hidden.txt")
    assert await names(tmp_path / ".hidden.txt") == [".hidden.txt"]
    assert await names((tmp_path / ".hidden.txt").as_uri()) == [".hidden.txt"]


async def test_a_relative_path_and_an_absolute_one_give_the_same_uri(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.txt")
    monkeypatch.chdir(tmp_path)
    assert [item.uri for item in await load("a.txt")] == [item.uri for item in await load(tmp_path)]


async def test_hidden_and_left_behind_files_are_skipped(tmp_path: Path) -> None:
    write(tmp_path, ".env", ".git/config", "~$report.docx", "Thumbs.db", "desktop.ini", ".DS_Store")
    write(tmp_path, "__pycache__/a.pyc", "node_modules/x/readme.md", "kept.txt")
    assert await names(tmp_path) == ["kept.txt"]


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("*.md", ["x.md", "a.md"]),
        ("*.MD", ["x.md", "a.md"]),
        ("**/*.md", ["x.md", "a.md"]),
        ("sub/*.md", ["x.md"]),
        ("*/x.*", ["x.md", "x.txt"]),
        ("?.txt", ["x.txt", "b.txt"]),
        ("[!b].{md,txt}", ["x.md", "x.txt", "a.md"]),
        ("sub/**", ["x.md", "x.txt"]),
        ("*.pdf", []),
    ],
)
async def test_glob(tmp_path: Path, glob: str, expected: list[str]) -> None:
    write(tmp_path, "a.md", "b.txt", "sub/x.md", "sub/x.txt")
    assert sorted(await names(tmp_path, glob=glob)) == sorted(expected)
    assert (await scan(str(tmp_path), glob=glob)).files == len(expected)


async def test_a_glob_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\[z-a\]"):
        await load(tmp_path, glob="[z-a]")


async def test_scan_counts_files_and_bytes(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "b/c.txt", text="12345")
    found = await scan(str(tmp_path))
    assert (found.files, found.bytes) == (2, 10)


@pytest.mark.parametrize("source", ["missing", "missing/deeper", "nul\0name", ""])
async def test_a_path_that_is_not_there(tmp_path: Path, source: str) -> None:
    path = f"{tmp_path}/{source}" if source else str(tmp_path / "none")
    with pytest.raises(SourceNotFound) as caught:
        await load(path)
    assert str(tmp_path) in str(caught.value)
    assert str(tmp_path) in caught.value.text("zh")


async def test_an_empty_folder_is_an_empty_stream(tmp_path: Path) -> None:
    assert await load(tmp_path) == []


async def test_link_loops_end_and_a_file_reached_twice_is_read_once(tmp_path: Path) -> None:
    write(tmp_path, "sub/a.txt")
    (tmp_path / "sub" / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "again").symlink_to(tmp_path / "sub", target_is_directory=True)
    (tmp_path / "z.txt").symlink_to(tmp_path / "sub" / "a.txt")
    (tmp_path / "self").symlink_to(tmp_path / "self")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    assert await names(tmp_path) == ["a.txt"]


async def test_deep_folders_do_not_overflow(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(1200):  # a path may have 4,096 bytes on Linux, 1,024 on macOS
        folder = Path(f"{folder}/d")
        try:
            folder.mkdir()
        except OSError:
            break
    folder = folder if folder.is_dir() else folder.parent
    file = folder / "a.txt"
    file.write_text("text")
    try:
        assert await names(tmp_path) == ["a.txt"]
    finally:  # removed here, bottom up: what clears old test folders would recurse too deep
        file.unlink()
        for path in [folder, *folder.parents]:
            if path == tmp_path:
                break
            path.rmdir()


async def test_files_that_cannot_be_read_do_not_stop_the_others(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    write(tmp_path, "big.txt", text="x" * 100)
    write(tmp_path, "empty.txt", text="")
    write(tmp_path, "good.txt")
    listener = socket.socket(socket.AF_UNIX)
    with listener:
        listener.bind(str(tmp_path / "socket"))
        items = await load(tmp_path, max_bytes=50)
    kinds = {item.name: type(item.error) if isinstance(item, LoadFailure) else Blob for item in items}
    assert kinds == {
        "big.txt": ContentTooLarge,
        "empty.txt": NoText,
        "good.txt": Blob,
        "pipe": ContentError,
        "socket": ContentError,
    }


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root may read everything")
async def test_a_file_without_permission_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "locked.txt")
    (tmp_path / "locked.txt").chmod(0)
    assert (await failure(tmp_path)).key == "load.unreadable"


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="has no users of this kind")
async def test_files_of_a_folder_that_may_not_be_entered_are_failures() -> None:
    """C6: what is there but out of reach is not gone, or a sync would delete its documents."""
    folder = Path(tempfile.mkdtemp(prefix="ragstone-locked-"))
    write(folder, "in/a.txt", "b.txt")
    folder.chmod(0o755)
    (folder / "in").chmod(0o644)
    user = os.geteuid()
    os.seteuid(user or 65534)  # root may enter every folder
    try:
        found = await load(folder)
        seen = await listing(str(folder))
        with pytest.raises(SourceNotFound) as caught:
            await load(folder / "in" / "a.txt")
    finally:
        os.seteuid(user)
        (folder / "in").chmod(0o755)
        shutil.rmtree(folder)
    uri = (folder / "in" / "a.txt").resolve().as_uri()
    assert [(item.name, isinstance(item, LoadFailure)) for item in found] == [
        ("b.txt", False),
        ("a.txt", True),
    ]
    assert seen.unreadable == (uri,)
    assert caught.value.key == "load.unreadable"


async def test_a_file_that_vanishes_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "b.txt", "c.txt")
    stream = files(str(tmp_path))
    first = await anext(stream)
    (tmp_path / "b.txt").unlink()
    rest = [item async for item in stream]
    assert first.name == "a.txt"
    # Whether the walk had seen it or not, the others are there and nothing is raised.
    assert [item.name for item in rest if isinstance(item, Blob)] == ["c.txt"]


async def test_the_limit_itself_is_allowed(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", text="x" * 50)
    assert isinstance((await load(tmp_path, max_bytes=50))[0], Blob)
    assert (await failure(tmp_path, max_bytes=49)).key == "load.too_large"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems allow no such names")
async def test_a_name_that_is_no_unicode_is_shown_and_has_an_address(tmp_path: Path) -> None:
    Path(os.fsdecode(bytes(tmp_path) + b"/" + "中文.txt".encode("gbk"))).write_text("text")
    Path(os.fsdecode(bytes(tmp_path) + b"/bad\xff.txt")).write_text("text")
    items = await load(tmp_path)
    assert sorted(item.name for item in items) == ["bad\ufffd.txt", "中文.txt"]
    for item in items:
        item.uri.encode("ascii")
