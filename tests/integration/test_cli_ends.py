"""How a command ends when it is asked to from outside, or has nowhere to read and write."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import TIMEOUT, CommandLine, Watched

COMMAND = "from ragstone.cli import run; run()"


def in_shell(command: CommandLine, redirection: str, *arguments: str | Path) -> tuple[int, str, str]:
    """(exit code, output, errors) of a command whose streams a shell redirects."""
    ended = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-c", COMMAND, *map(str, arguments)],
        env=command.environment(),
        cwd=command.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr


def server_runs(command: CommandLine) -> bool:
    return (command.home / "postgres/data/postmaster.pid").exists()


def test_a_signal_to_end_keeps_what_was_finished_and_stops_the_database(
    light: CommandLine, tmp_path: Path
) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(200):
        words = " ".join(f"word{number}x{index}" for index in range(400))
        (folder / f"{number:03}.md").write_text(f"# Note {number}\n\n{words}\n")
    process = light.start("add", folder, "--json")
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line).get("status") == "ready":
            break
    assert server_runs(light)
    process.terminate()
    _, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 128 + signal.SIGTERM
    assert err.decode().endswith("What was finished is kept; the same command goes on from there.\n")
    assert not server_runs(light)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_conversation_ends_with_its_terminal_and_stops_the_database(
    light: CommandLine, number: signal.Signals
) -> None:
    talking = Watched(light, "chat")
    talking.wait_for("> ")
    talking.type("Where is the ferry?\n")
    talking.wait_for(lambda shown: shown.count("\r\n> ") == 2)
    assert server_runs(light)
    assert talking.end_by(number) == 128 + number
    assert not server_runs(light)


def test_a_signal_that_is_ignored_stays_ignored(light: CommandLine) -> None:
    script = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); {COMMAND}"
    check = "import atexit, signal; atexit.register(lambda: print(signal.getsignal(signal.SIGHUP).name)); "
    ended = subprocess.run(
        [sys.executable, "-c", check + script, "--version"],
        env=light.environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=True,
    )
    assert ended.stdout.endswith("SIG_IGN\n")


def test_streams_that_are_closed_are_empty(ragstone: CommandLine) -> None:
    code, _, err = in_shell(ragstone, "<&-", "ask", "-")
    assert (code, err) == (2, "ragstone: The question is blank. Write what you want to know.\n")
    assert in_shell(ragstone, "<&-", "chat") == (0, "", "")
    assert in_shell(ragstone, ">&-", "list") == (0, "", "")
    assert in_shell(ragstone, "2>&-", "list", "--base", "no such base") == (2, "", "")
    assert in_shell(ragstone, "<&- >&- 2>&-", "list", "--base", "no such base")[0] == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_output_that_cannot_be_written_is_one_sentence(light: CommandLine, options: tuple[str, ...]) -> None:
    (light.folder / "note.md").write_text("# Note\n\nThe ferry leaves at noon.\n")
    code, _, err = in_shell(light, "> /dev/full", "parse", "note.md", *options)
    assert code == 1
    assert err.startswith("ragstone: The output could not be written")
    assert err.count("\n") == 1


def test_what_libraries_log_is_shown_only_for_debugging(light: CommandLine) -> None:
    script = (
        "import atexit, logging; "
        f"atexit.register(lambda: logging.getLogger('psycopg.pool').warning('noise')); {COMMAND}"
    )
    for options, shown in ((), False), (("--debug",), True):
        ended = subprocess.run(
            [sys.executable, "-c", script, "--version", *options],
            env=light.environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=True,
        )
        assert ("noise" in ended.stderr) == shown


def test_an_answer_on_a_terminal_ends_its_line(ragstone: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("The glass boat leaves Orrin at noon.\n")
    assert ragstone("add", tmp_path / "note.md", "--base", "lines").code == 0
    asking = Watched(ragstone, "ask", "When does the glass boat leave Orrin?", "--base", "lines")
    assert asking.end() == 0
    assert "noon. [1]\r\n" in asking.shown


def test_a_blank_base_is_refused_everywhere(ragstone: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("Anything.\n")
    for arguments in (("add", tmp_path / "note.md"), ("search", "anything"), ("list",)):
        assert ragstone(*arguments, "--base", "").code == 2


def test_a_home_below_a_file_is_called_that(light: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = replace(light, home=tmp_path / "file")("list")
    assert ended.code == 1
    assert "RAGSTONE_HOME" in ended.err
    assert "ragstone.toml" not in ended.err


def test_a_home_with_a_line_end_in_its_name_works(light: CommandLine, tmp_path: Path) -> None:
    assert replace(light, home=tmp_path / "two\nlines")("list").code == 0
