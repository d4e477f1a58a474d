"""`ragstone add` with files that end badly: each costs itself, and the next run tries it again."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time
import uuid
import zipfile
from pathlib import Path
from typing import Any

import pytest
from command_line import TIMEOUT, CommandLine

from making import encrypted_zip, zipped

SECRET = "geheim-密码"

# Writes who reads the file, and waits to be killed; read again, it is a document.
SLOW = """
import os, pathlib, time
from ragstone.types import Document

class Slow:
    def accepts(self, blob):
        return blob.data.startswith(b"SLOW:")

    def parse(self, blob):
        marker = pathlib.Path(blob.data.decode().removeprefix("SLOW:"))
        if not marker.exists():
            marker.with_suffix(".new").write_text(str(os.getpid()))
            marker.with_suffix(".new").rename(marker)
            time.sleep(600)
        return Document(text="Read at last.", uri=blob.uri, title=blob.name)
"""


@pytest.fixture
def base() -> str:
    return f"b-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def plugin(tmp_path: Path) -> str:
    """PYTHONPATH with the parser above."""
    about = tmp_path / "plugin" / "slow_plugin-1.0.dist-info"
    about.mkdir(parents=True)
    (tmp_path / "plugin" / "slow_plugin.py").write_text(SLOW)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: slow-plugin\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[ragstone.parsers]\nslow = slow_plugin:Slow\n")
    return str(tmp_path / "plugin")


def statuses(events: list[Any]) -> dict[str, str]:
    return {event["name"]: event["status"] for event in events if event["event"] == "file"}


def add_and_kill(ragstone: CommandLine, source: Path, base: str, marker: Path, plugin: str) -> list[Any]:
    """Add the source, and kill the process that reads the slow file by its id."""
    process = ragstone.start("add", source, "--base", base, "--json", settings={"PYTHONPATH": plugin})
    pause, end = threading.Event(), time.monotonic() + TIMEOUT
    while not marker.exists():
        assert process.poll() is None
        assert time.monotonic() < end
        pause.wait(0.05)
    os.kill(int(marker.read_text()), signal.SIGKILL)
    out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, err
    return [json.loads(line) for line in out.splitlines()]


def test_a_parser_killed_by_hand_costs_one_file_and_the_next_add_reads_it(
    ragstone: CommandLine, tmp_path: Path, base: str, plugin: str
) -> None:
    """C10, C11: the status says what happened, and a retry needs no more than the same command."""
    folder, marker = tmp_path / "files", tmp_path / "marker"
    folder.mkdir()
    (folder / "b.slow").write_text(f"SLOW:{marker}")
    for name in ("a", "c", "d", "e"):
        (folder / f"{name}.md").write_text(f"# {name}\n\nThe file {name}.\n")
    events = add_and_kill(ragstone, folder, base, marker, plugin)
    found = statuses(events)
    assert found == {"a.md": "ready", "b.slow": "failed", "c.md": "ready", "d.md": "ready", "e.md": "ready"}
    (failure,) = events[-1]["failures"]
    assert failure["error"]["code"] == "parse.crashed"
    assert "SIGKILL" in failure["error"]["message"]
    again = ragstone("add", folder, "--base", base, "--json", PYTHONPATH=plugin)
    assert again.code == 0
    assert statuses(again.events) == {**dict.fromkeys(found, "unchanged"), "b.slow": "ready"}


def test_a_member_that_a_killed_parser_lost_is_read_by_the_next_add(
    ragstone: CommandLine, tmp_path: Path, base: str, plugin: str
) -> None:
    """C10, C11: also where the file lies in an archive that is itself unchanged."""
    box, marker = tmp_path / "box.zip", tmp_path / "marker"
    box.write_bytes(
        zipped({"a.md": "# First\n\nThe first.", "b.slow": f"SLOW:{marker}", "c.md": "The last."})
    )
    events = add_and_kill(ragstone, box, base, marker, plugin)
    first = statuses(events)
    assert first == {"a.md": "ready", "b.slow": "failed", "c.md": "ready", "box.zip": "ready"}
    assert "could not be read" in next(e for e in events if e.get("name") == "box.zip")["warnings"][0]
    again = ragstone("add", box, "--base", base, "--json", PYTHONPATH=plugin).events
    assert statuses(again) == {**dict.fromkeys(first, "unchanged"), "b.slow": "ready", "box.zip": "ready"}
    assert not next(event for event in again if event.get("name") == "box.zip")["warnings"]
    last = ragstone("add", box, "--base", base, "--json", PYTHONPATH=plugin).events
    assert statuses(last) == {"box.zip": "unchanged"}


def test_a_password_file_opens_what_was_locked(ragstone: CommandLine, tmp_path: Path, base: str) -> None:
    """C10: the reason goes away with its cause, without a change of the archive."""
    box, passwords = tmp_path / "box.zip", tmp_path / "passwords.txt"
    box.write_bytes(encrypted_zip(SECRET))
    passwords.write_text(f"other\n{SECRET}\n")
    refused = ragstone("add", box, "--base", base, "--password-file", passwords)
    assert refused.code == 2
    assert "chmod 600" in refused.err
    passwords.chmod(0o600)
    locked = ragstone("add", box, "--base", base)
    assert "--password-file" in locked.out
    assert statuses(ragstone("add", box, "--base", base, "--json").events) == {"box.zip": "unchanged"}
    opened = ragstone("add", box, "--base", base, "--password-file", passwords, "--json")
    assert statuses(opened.events) == {"note.txt": "ready", "box.zip": "ready"}
    assert SECRET not in opened.out + opened.err + locked.out + ragstone("config").out
    assert ragstone("add", box, "--base", base, "--password-file", tmp_path / "none").code == 2


def test_failures_within_one_container_are_told_together(
    ragstone: CommandLine, tmp_path: Path, base: str
) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for number in range(40):
            archive.writestr(f"../{number}.txt", "out")
        for number in range(3):
            archive.writestr(f"empty{number}.txt", "")
        archive.writestr("good.txt", "A good one.")
    box = tmp_path / "big box.zip"
    box.write_bytes(data.getvalue())
    shown = ragstone("add", box, "--base", base)
    told = [line for line in shown.out.splitlines() if "big box.zip" in line]
    assert len(shown.out.splitlines()) < 8
    assert any("43" in line and "leads out" in line and "0 bytes" in line for line in told), shown.out
    assert (
        len(ragstone("add", tmp_path / "big box.zip", "--base", f"{base}2", "--json").events[-1]["failures"])
        == 43
    )
