"""The real `ragstone` command as a subprocess, in a home of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

COMMAND = [sys.executable, "-c", "from ragstone.cli import run; run()"]
SCRIPT = Path(sys.executable).with_name("ragstone")
TIMEOUT = 60.0


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How one run of the command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which must be one JSON object and nothing else."""
        return json.loads(self.out)

    @property
    def events(self) -> list[Any]:
        """Standard output, which must be one JSON object a line."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """Runs commands with the fake embedder, in English, with nothing of this process's settings."""

    home: Path
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)

    def environment(self, **settings: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAGSTONE_")}
        ours = {
            "RAGSTONE_HOME": str(self.home),
            "RAGSTONE_LANG": "en",
            "RAGSTONE_TEST_EMBEDDER": "fake",
            "COLUMNS": "100",
        }
        return {**kept, **ours, **self.settings, **settings}

    def start(self, *arguments: str | Path, **options: Any) -> subprocess.Popen[bytes]:
        settings = options.pop("settings", {})
        return subprocess.Popen(
            [
                SCRIPT if SCRIPT.exists() else COMMAND[0],
                *(() if SCRIPT.exists() else COMMAND[1:]),
                *arguments,
            ],
            env=self.environment(**settings),
            cwd=self.folder,
            **{
                "stdin": subprocess.DEVNULL,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                **options,
            },
        )

    def __call__(self, *arguments: str | Path, stdin: str | None = None, **settings: str) -> Ended:
        options = {} if stdin is None else {"stdin": subprocess.PIPE}
        process = self.start(*arguments, settings=settings, **options)
        out, err = process.communicate(None if stdin is None else stdin.encode(), timeout=TIMEOUT)
        # JSON and text must be valid UTF-8: nothing is replaced here.
        return Ended(code=process.returncode, out=out.decode("utf-8"), err=err.decode("utf-8"))


@dataclass(frozen=True, kw_only=True)
class Inside:
    """The same command line within this process: quick, for what ends before anything is started."""

    command: CommandLine
    patch: pytest.MonkeyPatch
    captured: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str | Path, **settings: str) -> Ended:
        from ragstone.cli.app import main
        from ragstone.cli.words import language

        with self.patch.context() as patch:
            for name, value in self.command.environment(**settings).items():
                patch.setenv(name, value)
            patch.chdir(self.command.folder)
            language.cache_clear()
            code = main([str(argument) for argument in arguments])
        language.cache_clear()
        out, err = self.captured.readouterr()
        return Ended(code=code, out=out, err=err)


class Watched:
    """A command in a pseudo terminal: what it shows, what is typed, Ctrl-C."""

    def __init__(self, command: CommandLine, *arguments: str | Path, **settings: str) -> None:
        import pty

        self._terminal, side = pty.openpty()
        self.process = command.start(
            *arguments,
            settings={"TERM": "xterm-256color", **settings},
            stdin=side,
            stdout=side,
            stderr=side,
            start_new_session=True,
        )
        os.close(side)
        self.shown = ""
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._terminal, 4096)
            except OSError:  # the other side is closed
                piece = b""
            with self._more:
                self.shown += piece.decode("utf-8", "replace")
                self._more.notify_all()
            if not piece:
                return

    def wait_for(self, found: str | Callable[[str], bool], timeout: float = TIMEOUT) -> None:
        """Until the terminal has shown it."""
        assert self._shows(found, timeout), self.shown

    def _shows(self, found: str | Callable[[str], bool], timeout: float) -> bool:
        with self._more:
            fits = (lambda: found in self.shown) if isinstance(found, str) else (lambda: found(self.shown))
            return self._more.wait_for(fits, timeout)

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def interrupt(self, shown: str) -> None:
        """Ctrl-C, until the terminal shows what it brings.

        A signal that comes between the prompt and the wait for input is seen by Python
        only with the next one; the two count as one.
        """
        for _ in range(12):
            self.process.send_signal(signal.SIGINT)
            if self._shows(shown, TIMEOUT / 12):
                return
        raise AssertionError(self.shown)

    def end_by(self, number: signal.Signals) -> int:
        """The exit code after a signal, which is sent again for the reason of `interrupt`."""
        for _ in range(12):
            self.process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(TIMEOUT / 12)
                break
        return self.end()

    def end(self) -> int:
        """The exit code, once the command has ended by itself."""
        code = self.process.wait(TIMEOUT)
        self._reader.join(TIMEOUT)
        os.close(self._terminal)
        return code
