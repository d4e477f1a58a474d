"""Every command and every program of the README files runs, as a newcomer would run it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.resources import as_file, files
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READMES = ("README.md", "README.zh.md")
PROGRAMS = (*READMES, "docs/conversations.md")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(readme: str, language: str) -> list[str]:
    return [
        code for kind, code in BLOCK.findall((ROOT / readme).read_text(encoding="utf-8")) if kind == language
    ]


def lines(readme: str) -> list[str]:
    return [line for code in blocks(readme, "sh") for line in code.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory, local_model_folder: Path) -> Path:
    """A folder with `papers` in it and an empty home whose model is already converted."""
    folder = tmp_path_factory.mktemp("newcomer")
    with as_file(files("ragstone.kb") / "samples") as samples:
        shutil.copytree(samples, folder / "papers")
    for home in ("home", "my-home"):
        (folder / home).mkdir()
        (folder / home / "models").symlink_to(local_model_folder, target_is_directory=True)
    return folder


def run(command: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "RAGSTONE_HOME": str(folder / "home"),
        "RAGSTONE_LANG": "en",
        **more,
    }
    return subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("readme", READMES)
def test_every_command_runs(readme: str, newcomer: Path) -> None:
    commands = [line for line in lines(readme) if line.startswith("ragstone ")]
    assert len(commands) >= 7
    for command in commands:
        done = run(command, newcomer)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        if command.startswith("ragstone ask"):
            assert "[1]" in done.stdout


@pytest.mark.parametrize("readme", READMES)
def test_every_other_line_is_one_this_test_knows(readme: str) -> None:
    known = re.compile(
        r"make (demo|test)|\. \.venv/bin/activate|\.venv/bin/ragstone serve"
        r"|export RAGSTONE_[A-Z_]+=\S+|ragstone .+"
    )
    assert [line for line in lines(readme) if not known.fullmatch(line)] == []


def test_the_demo_answers_its_three_questions(newcomer: Path) -> None:
    done = run("ragstone demo", newcomer)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^\[1\] ", done.stdout, re.MULTILINE)) == 3
    for path in re.findall(r"^\s+(/\S+\.(?:md|pdf|html))$", done.stdout, re.MULTILINE):
        assert Path(path).is_file()


@pytest.mark.parametrize("readme", READMES)
def test_every_exported_setting_exists(readme: str, newcomer: Path) -> None:
    exports = [line for line in lines(readme) if line.startswith("export ")]
    assert exports
    done = run(" && ".join([*exports, "ragstone config"]), newcomer)
    assert done.returncode == 0, done.stderr
    assert ":password@" not in done.stdout


@pytest.mark.parametrize(
    ("readme", "code"), [(readme, code) for readme in PROGRAMS for code in blocks(readme, "python")]
)
def test_every_program_runs(readme: str, code: str, newcomer: Path) -> None:
    program = newcomer / "program.py"
    program.write_text(code, encoding="utf-8")
    done = run(f"{sys.executable} {program}", newcomer)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "do not answer" not in done.stdout


@pytest.mark.parametrize("readme", [*PROGRAMS, "CONTRIBUTING.md", "docs/architecture.md"])
def test_every_link_and_named_file_exists(readme: str) -> None:
    text = (ROOT / readme).read_text(encoding="utf-8")
    links = {link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link}
    assert {link for link in links if not (ROOT / readme).parent.joinpath(link).exists()} == set()
    named = set(re.findall(r"`((?:src|tests|docs)/[\w./-]+)`", text))
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_the_architecture_page_names_a_file_for_every_word_of_the_two_paths() -> None:
    from ragstone import protocols

    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawing = (protocols.__doc__ or "").split("\n\n")[1]
    words = re.findall(r"\w+(?!\w*:)\b", drawing)
    assert len(words) == 16
    table = [row for row in page.splitlines() if row.startswith("|") and "](../src/" in row]
    for word in words:
        assert any(word in row.split("|")[1] for row in table), word
