"""Archives as containers: names, limits, damage, bombs. Nothing is written anywhere."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from making import blob, docx, paragraph, zipped
from ragstone.errors import (
    ContentError,
    ContentTooLarge,
    CorruptContent,
    NoText,
    PasswordRequired,
    UnsupportedContent,
)
from ragstone.parse import members as limits
from ragstone.parse.archive import decode_names
from ragstone.parse.containers import may_hold_members, members
from ragstone.parse.router import parse
from ragstone.types import Blob, LoadFailure


def tar(parts: dict[str, bytes], *more: tarfile.TarInfo, mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in parts.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in more:
            archive.addfile(info)
    return buffer.getvalue()


def read(source: Blob) -> tuple[dict[str, bytes], dict[str, ContentError]]:
    """Members by their path below the archive: those read, and those refused."""
    assert may_hold_members(source)
    good: dict[str, bytes] = {}
    bad: dict[str, ContentError] = {}
    for member in members(source):
        if isinstance(member, LoadFailure):
            assert isinstance(member.error, ContentError)
            assert "!/" in member.error.text("zh") or member.error.text("zh")
            bad[member.name.partition("!/")[2]] = member.error
        else:
            good[member.uri.removeprefix(source.uri + "!/")] = member.data
    return good, bad


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.zip", lambda parts: zipped(parts)),
        ("a.tar", lambda parts: tar(parts)),
        ("a.tgz", lambda parts: gzip.compress(tar(parts))),
        ("a.tar.bz2", lambda parts: bz2.compress(tar(parts))),
        ("a.tar.xz", lambda parts: lzma.compress(tar(parts))),
        ("named wrong.txt", lambda parts: zipped(parts)),
    ],
)
def test_every_file_is_a_member_with_its_own_address(
    name: str, pack: Callable[[dict[str, bytes]], bytes]
) -> None:
    source = blob(name, pack({"inner/note.txt": b"words", "data/合同.md": b"# x"}))
    first, second = members(source)
    assert isinstance(first, Blob)
    assert (first.uri, first.name, first.data) == (f"{source.uri}!/inner/note.txt", "note.txt", b"words")
    assert first.metadata == {"container": name}
    assert isinstance(second, Blob)
    assert second.uri == f"{source.uri}!/data/%E5%90%88%E5%90%8C.md"
    document = parse(source)
    assert "inner/note.txt" in document.text
    assert "data/合同.md" in document.text


def test_one_compressed_file_is_one_member() -> None:
    assert read(blob("log.txt.gz", gzip.compress(b"a line")))[0] == {"log.txt": b"a line"}


def test_hidden_files_and_what_systems_leave_behind_are_passed_over() -> None:
    parts = {
        "a.txt": b"a", ".hidden/b.txt": b"b", "__MACOSX/._a.txt": b"c", "d/.DS_Store": b"d",
        "Thumbs.db": b"e", "node_modules/x.md": b"f", "~$report.docx": b"g", "folder/": b"",
    }  # fmt: skip
    assert read(blob("a.zip", zipped(parts))) == ({"a.txt": b"a"}, {})
    assert parse(blob("a.zip", zipped(parts))).text == "- a.txt (1 bytes)"


def test_names_that_lead_out_are_refused_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    parts = {
        "../../evil.txt": b"x",
        "/etc/passwd": b"x",
        "C:\\boot.ini": b"x",
        "a\\..\\..\\b": b"x",
        "a\\ok.txt": b"y",
    }
    for source in (blob("a.zip", zipped(parts)), blob("a.tar", tar(parts))):
        good, bad = read(source)
        assert good == {"a/ok.txt": b"y"}
        assert len(bad) == 4
        assert {error.key for error in bad.values()} == {"parse.member_path"}
    assert list(tmp_path.iterdir()) == []


def test_names_that_appear_twice_are_both_read() -> None:
    data = zipped({"a.txt": "one", "b.txt": "two"}).replace(b"b.txt", b"a.txt")
    assert read(blob("a.zip", data))[0] == {"a.txt": b"one", "a%20%282%29.txt": b"two"}


def test_links_and_devices_are_not_followed() -> None:
    infos: list[tarfile.TarInfo] = []
    for name, kind in (
        ("link", tarfile.SYMTYPE),
        ("hard", tarfile.LNKTYPE),
        ("null", tarfile.CHRTYPE),
        ("pipe", tarfile.FIFOTYPE),
    ):
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, "/etc/passwd"
        infos.append(info)
    good, bad = read(blob("a.tar", tar({"a.txt": b"a"}, *infos)))
    assert good == {"a.txt": b"a"}
    assert {name: error.key for name, error in bad.items()} == dict.fromkeys(
        ("link", "hard", "null", "pipe"), "parse.member_link"
    )
    link = zipfile.ZipInfo("link")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(link, "/etc/passwd")
        archive.writestr("a.txt", "a")
    good, bad = read(blob("a.zip", buffer.getvalue()))
    assert (good, bad["link"].key) == ({"a.txt": b"a"}, "parse.member_link")


def test_an_encrypted_member_needs_a_password_and_the_others_go_on() -> None:
    data = bytearray(zipped({"secret.txt": b"x", "open.txt": b"y"}))
    central = data.index(b"PK\x01\x02")
    data[6] |= 1
    data[central + 8] |= 1
    good, bad = read(blob("a.zip", bytes(data)))
    assert good == {"open.txt": b"y"}
    assert isinstance(bad["secret.txt"], PasswordRequired)


@pytest.mark.parametrize("name", ["审计/需求文档.doc", "图片1.png", "合同", "2021年报告(最终).pdf"])
def test_chinese_names_without_a_mark_are_read(name: str) -> None:
    for encoding in ("gbk", "utf-8"):
        bare = name.encode(encoding)
        # An archive whose name is replaced by bytes without the mark of UTF-8.
        info = zipfile.ZipInfo("n" * len(bare))
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr(info, "x")
        source = blob("a.zip", buffer.getvalue().replace(b"n" * len(bare), bare))
        (member,) = members(source)
        assert isinstance(member, Blob)
        assert member.name == Path(name).name


def test_western_names_of_old_archives_are_read() -> None:
    assert decode_names(["Übung.txt".encode("cp437"), "café.txt".encode("cp437")]) == [
        "Übung.txt",
        "café.txt",
    ]


# --- bombs ---------------------------------------------------------------------------


def test_a_member_that_unpacks_like_a_bomb_is_refused_and_the_others_go_on() -> None:
    good, bad = read(blob("a.zip", zipped({"zeros.txt": bytes(3_000_000), "a.txt": b"a"})))
    assert good == {"a.txt": b"a"}
    assert bad["zeros.txt"].key == "parse.member_bomb"


def test_a_lying_directory_does_not_get_past_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_MEMBER_BYTES", 1_000)
    data = zipped({"a.txt": b"a b c d " * 1_000, "b.txt": b"b"})
    size = (8_000).to_bytes(4, "little")
    assert data.count(size) == 2
    good, bad = read(blob("a.zip", data.replace(size, (800).to_bytes(4, "little"))))
    assert good.keys() >= {"b.txt"}
    assert isinstance(bad.get("a.txt", ContentTooLarge("parse.unpacked", name="", limit=1)), ContentError)
    assert len(good.get("a.txt", b"")) <= 1_000


def test_members_over_the_limit_are_left_out_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_MEMBER_BYTES", 10)
    monkeypatch.setattr(limits, "MAX_TOTAL_BYTES", 15)
    good, bad = read(blob("a.zip", zipped({"a": b"x" * 8, "b": b"x" * 11, "c": b"x" * 8, "d": b"x" * 5})))
    assert good.keys() == {"a", "d"}
    assert {name: error.key for name, error in bad.items()} == {
        "b": "parse.unpacked",
        "c": "parse.members_large",
    }


def test_too_many_members_end_the_stream_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_MEMBERS", 5)
    inner = zipped({f"{n}.txt": b"x" for n in range(4)})
    seen: list[str] = []
    source = blob("a.zip", zipped({"1.zip": inner, "2.zip": inner}))
    with pytest.raises(ContentTooLarge) as caught:
        seen.extend(member.name for member in members(source))
    assert caught.value.key == "parse.members_many"
    assert len(seen) == 5


def test_containers_within_containers_are_opened_three_deep() -> None:
    data = b"words"
    for level in range(6):
        data = zipped({f"{level}.zip" if level else "note.txt": data, "side.txt": b"s"})
    good, bad = read(blob("a.zip", data))
    assert "5.zip!/4.zip!/side.txt" in good
    assert not any(path.count("!/") > 2 for path in good)
    assert {error.key for error in bad.values()} == {"parse.member_deep"}


def test_a_tar_bomb_ends_while_it_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragstone.parse.archive.MAX_TOTAL_BYTES", 100_000)
    data = gzip.compress(tar({"a.txt": b"a", "big": bytes(200_000), "z.txt": b"z"}))
    document = parse(blob("a.tgz", data))
    assert document.text.startswith("- a.txt")
    assert [remark.key for remark in document.warnings] == ["parse.archive_cut"]


# --- damage --------------------------------------------------------------------------


def test_a_cut_off_zip_says_so() -> None:
    for call in (parse, lambda source: list(members(source))):
        with pytest.raises(CorruptContent):
            call(blob("a.zip", zipped({"a.txt": b"words" * 100})[:-30]))


def test_a_cut_off_tar_gives_what_is_before_the_cut() -> None:
    data = gzip.compress(tar({"a.txt": b"a", "b.txt": Random(1).randbytes(400_000)}))[:-2_000]
    seen: list[str] = []
    with pytest.raises(CorruptContent):
        seen.extend(m.name for m in members(blob("a.tgz", data)) if isinstance(m, Blob))
    assert seen == ["a.txt"]
    assert [remark.key for remark in parse(blob("a.tgz", data)).warnings] == ["parse.archive_cut"]


def test_a_damaged_member_costs_only_itself() -> None:
    data = bytearray(zipped({"a.txt": b"some words that are packed " * 20, "b.txt": b"b"}))
    data[40] ^= 0xFF
    good, bad = read(blob("a.zip", bytes(data)))
    assert good == {"b.txt": b"b"}
    assert isinstance(bad["a.txt"], CorruptContent)


def test_an_empty_archive_holds_nothing() -> None:
    for parts in ({}, {".hidden": "x"}):
        with pytest.raises(NoText) as caught:
            parse(blob("a.zip", zipped(parts)))
        assert caught.value.key == "parse.archive_empty"


def test_an_office_file_is_a_document_not_an_archive() -> None:
    assert list(members(blob("a.docx", docx(paragraph("words"))))) == []


def test_archives_of_other_kinds_say_which_are_read() -> None:
    with pytest.raises(UnsupportedContent, match="ZIP, TAR") as caught:
        parse(blob("a.7z", b"7z\xbc\xaf'\x1c" + bytes(30)))
    assert caught.value.key == "parse.archive"


def test_a_name_too_long_to_store_costs_only_itself() -> None:
    good, bad = read(blob("a.zip", zipped({"长" * 600 + ".txt": b"x", "a.txt": b"a"})))
    assert good == {"a.txt": b"a"}
    assert [error.key for error in bad.values()] == ["parse.member_name"]
