"""Archives and mails with the real command: added, shown, changed, removed."""

from __future__ import annotations

import uuid
from pathlib import Path

from command_line import CommandLine

from making import zipped

NOTE = "The ferry leaves Halm at 22:15."


def test_an_archive_is_added_with_its_members_and_removed_with_them(
    ragstone: CommandLine, tmp_path: Path
) -> None:
    base, box = f"b-{uuid.uuid4().hex[:8]}", tmp_path / "box.zip"
    box.write_bytes(zipped({"in/note.txt": NOTE, "合同.md": "# 合同\n\n付款条件", "../out.txt": "x"}))
    added = ragstone("add", box, "--base", base, "--json").events
    files = {event["name"]: event["status"] for event in added if event["event"] == "file"}
    assert files == {
        "note.txt": "ready", "合同.md": "ready", "box.zip!/../out.txt": "failed", "box.zip": "ready",
    }  # fmt: skip
    assert "could not be read" in next(e for e in added if e.get("name") == "box.zip")["warnings"][0]
    again = ragstone("add", box, "--base", base, "--json").events[-1]
    assert (again["files"], again["unchanged"], again["failed"]) == (1, 1, 0)

    hit = ragstone("search", "ferry leaves Halm", "--base", base, "--json").json["hits"][0]
    assert hit["uri"] == f"{box.as_uri()}!/in/note.txt"
    assert hit["metadata"]["container"] == "box.zip"
    assert ragstone("show", "note.txt", "--base", base, "--json").json["text"] == NOTE
    assert "in/note.txt" in ragstone("parse", box).out

    box.write_bytes(zipped({"in/note.txt": NOTE}))
    ragstone("add", box, "--base", base)
    listed = ragstone("list", "--base", base, "--json").json["documents"]
    assert {info["uri"] for info in listed} == {box.as_uri(), f"{box.as_uri()}!/in/note.txt"}

    assert ragstone("rm", box, "--base", base, "--yes").code == 0
    assert ragstone("list", "--base", base, "--json").json["documents"] == []


def test_parsing_a_mail_prints_the_mail(ragstone: CommandLine, tmp_path: Path) -> None:
    mail = tmp_path / "m.eml"
    mail.write_bytes(
        b"From: a@b.c\nTo: d@e.f\nSubject: =?utf-8?B?5oql5Lu3?=\n"
        b"Content-Type: multipart/mixed; boundary=x\n\n"
        b"--x\n\nThe body.\n--x\nContent-Disposition: attachment; filename=a.txt\n\nAttached.\n--x--\n"
    )
    shown = ragstone("parse", mail, "--json").json
    assert shown["title"] == "报价"
    assert shown["text"].splitlines()[-3:] == ["Attachments: a.txt", "", "The body."]
