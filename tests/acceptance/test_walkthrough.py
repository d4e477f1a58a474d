"""The walk-through of docs/application.md and its Chinese page: every command, against a real server."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import httpx2
import pytest
from test_readme import ROOT, blocks, run

from api import Api
from serving import serving

PAGES = (("docs/application.md", "README.md"), ("docs/application.zh.md", "README.zh.md"))
IDS = ("base_id", "document_id", "session_id", "message_id")


@pytest.fixture
def folder(tmp_path: Path, local_model_folder: Path) -> Path:
    """A folder with `papers` in it and an empty home whose model is already converted."""
    with as_file(files("ragstone.kb") / "samples") as samples:
        shutil.copytree(samples, tmp_path / "papers")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "models").symlink_to(local_model_folder, target_is_directory=True)
    return tmp_path


class Reader:
    """Somebody who types the commands of a page and puts the ids of the answers into the next ones."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder, self._url = folder, url
        self.known: dict[str, str] = {}

    def type(self, command: str) -> str:
        for name, value in self.known.items():
            command = command.replace(name, value)
        assert not re.search(r"[A-Z]+_ID|\bKEY\b", command), command
        command = command.replace("localhost:8080", self._url)
        done = run(command.replace("curl ", "curl -sS ", 1), self._folder)
        said = f"{command}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == 0, said
        assert '"about:blank"' not in done.stdout, said
        if command.startswith("ragstone key create"):
            self.known["KEY"] = done.stdout.strip()
        elif done.stdout.startswith("{"):
            self._note(json.loads(done.stdout))
        return done.stdout

    def _note(self, answer: dict[str, Any]) -> None:
        """The first of each id, the answer's own before those of what it holds."""
        values = dict[str, str]()
        for found in _objects(answer):
            for name in IDS:
                if isinstance(found.get(name), str):
                    values.setdefault(name.upper(), found[name])
        self.known |= values


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(item)


def console(readme: str) -> list[str]:
    """What a README tells to ask a server."""
    lines = [line for code in blocks(readme, "console") for line in code.splitlines()]
    return [line[2:] for line in lines if line.startswith("$ curl")]


def command_line_knows_uploads(client: httpx2.Client, base_id: str, folder: Path) -> None:
    """An upload has the address of its bytes; people are shown its name, and may say it."""
    name = client.get(f"/api/bases/{base_id}").json()["name"]
    for command, wanted in (
        (f"ragstone list --base {name}", "(差旅报销制度.md)"),
        (f"ragstone show 差旅报销制度.md --base {name}", "\n差旅报销制度.md\n"),
        (f"ragstone ask --base {name} 餐饮补贴每天多少？", "    差旅报销制度.md  (ragstone show "),
        (f"ragstone search --base {name} 餐饮补贴 --top-k 1", "   差旅报销制度.md  (ragstone show "),
    ):
        done = run(command, folder)
        assert (done.returncode, wanted in done.stdout) == (0, True), done.stdout + done.stderr
        assert "sha256:" not in done.stdout


@pytest.mark.parametrize(("page", "readme"), PAGES)
def test_every_command_of_the_walk_through_runs(page: str, readme: str, folder: Path) -> None:
    """They work as they stand, those of the command line beside the server too."""
    fill, ask, talk, delete, keys = [code.splitlines() for code in blocks(page, "sh")]
    with serving(folder / "home", test_embedder="") as url, httpx2.Client(base_url=url, timeout=60) as client:
        reader = Reader(folder, url)
        reader.type("ragstone add papers --base other")
        for command in fill:
            reader.type(command)
        base_id = reader.known["BASE_ID"]
        ready = Api(client).settled(base_id)
        assert [document["status"] for document in ready.values()] == ["ready", "ready"]
        command_line_knows_uploads(client, base_id, folder)
        (command,) = console(readme)
        assert "[1]" in reader.type(command)
        listed, found, asked, streamed = [reader.type(command) for command in ask]
        assert json.loads(listed)["total"] == 1
        assert "餐饮补贴" in json.loads(found)["hits"][0]["text"]
        assert json.loads(asked)["answered"]
        assert "event: done" in streamed
        assert '"answered":true' in streamed
        reader.known["BASE_ID"] = base_id
        *said, exported = [reader.type(command) for command in talk]
        assert [json.loads(text)["answered"] for text in said[1:3]] == [True, True]
        assert exported.count("> ") >= 4
        assert "Nothing is left" in [reader.type(command) for command in delete][2]
        *_, seen = [reader.type(command) for command in keys]
        assert [base["base_id"] for base in json.loads(seen)["items"]] == [base_id]
        assert client.get("/api/bases").status_code == 401


def test_both_pages_tell_the_same_commands() -> None:
    """The two languages differ in words, not in what is done."""
    told = [
        [
            re.sub(r"'[^']*'|=\S+|-base \S+|[^\x00-\x7f]+", "", line).split(" -H")[0]
            for code in blocks(page, "sh")
            for line in code.splitlines()
        ]
        for page, _ in PAGES
    ]
    assert len(told[0]) > 15
    assert told[0] == told[1]


@pytest.mark.parametrize(("page", "readme"), PAGES)
def test_the_first_screen_says_what_it_is_and_starts_it_in_two_commands(page: str, readme: str) -> None:
    text = (ROOT / readme).read_text(encoding="utf-8")
    screen = "\n".join(text.splitlines()[:40])
    assert blocks(readme, "sh")[0].splitlines() == ["make demo", ".venv/bin/ragstone serve"]
    for word in ("HTTP", "http://localhost:8080", ".venv/bin/ragstone serve"):
        assert word in screen
    assert page in text


def test_the_demo_ends_with_commands_that_work_where_ragstone_is_not_on_the_path(folder: Path) -> None:
    command = Path(sys.executable).with_name("ragstone")
    done = run(f"{command} demo", folder, PATH="/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    assert f"  {command} serve\n" in done.stdout
