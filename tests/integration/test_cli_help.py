"""Help pages, version, and what starting the command costs."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest
from command_line import CommandLine, Inside

from ragstone.cli.app import COMMANDS

HEAVY = ("numpy", "psycopg", "ctranslate2", "rich", "anyio", "openai", "tokenizers")


@pytest.mark.parametrize("command", ["", "add", "chat", "doctor"])
def test_a_help_page_loads_nothing_heavy(command: str) -> None:
    arguments = [command, "--help"] if command else ["--help"]
    # Below a command typer itself checks the options with pydantic.
    heavy = HEAVY if command else (*HEAVY, "pydantic")
    code = (
        "import sys, atexit\n"
        "from ragstone.cli import run\n"
        f"sys.argv = ['ragstone', *{arguments!r}]\n"
        f"atexit.register(lambda: sys.stderr.write(' '.join(n for n in {heavy!r} if n in sys.modules)))\n"
        "run()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert ended.stdout.startswith("Usage: ragstone")
    assert ended.stderr == ""


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_page_with_an_example(command: str, language: str, inside: Inside) -> None:
    page = inside(command, "--help", RAGSTONE_LANG=language)
    assert page.code == 0
    assert f"  ragstone {command}" in page.out.partition({"en": "Example", "zh": "示例"}[language])[2]
    assert "--json" in page.out
    assert "Traceback" not in page.err
    assert "{DOC}" not in page.out
    assert "{FILE}" not in page.out
    assert not any(line.strip() in ("[required]", "[必填]") for line in page.out.splitlines())


def test_the_language_follows_the_locale_and_the_setting_wins(light: CommandLine) -> None:
    assert "命令：" in light("--help", RAGSTONE_LANG="", LC_ALL="zh_CN.UTF-8").out
    assert "Commands:" in light("--help", RAGSTONE_LANG="en", LC_ALL="zh_CN.UTF-8").out
    assert "Usage:" not in light("add", "--help", RAGSTONE_LANG="zh").out


def test_help_takes_little_processor_time(light: CommandLine) -> None:
    """0.3 CPU seconds is the promise; the test leaves room for a slower machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    light("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.9


def test_version(light: CommandLine) -> None:
    from importlib.metadata import version

    assert light("--version").out == f"ragstone {version('ragstone')}\n"


def test_without_the_application_the_extra_to_install_is_named() -> None:
    code = "import sys; sys.modules['typer'] = None; from ragstone.cli import run; run()"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == 2
    assert "[kb]" in ended.stderr
    assert "Traceback" not in ended.stderr
