"""`ragstone serve` as a real process, for tests that speak HTTP with it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

COMMAND = (sys.executable, "-c", "from ragstone.cli import run; run()")
START_S = 60.0
STOP_S = 30.0


@contextmanager
def process(
    *arguments: str,
    home: Path,
    environment: Mapping[str, str] | None = None,
    log: Path | None = None,
    **settings: str,
) -> Iterator[subprocess.Popen[str]]:
    """`ragstone *arguments` with the fake embedder unless `settings` say otherwise; ended afterwards.

    `environment` is what other programs are told too. What it logs goes to the end of the file `log`,
    for a pipe that nobody reads stops a process that says much.
    """
    variables = environment_of(home, **settings) | dict(environment or {})
    with ExitStack() as stack:
        errors = subprocess.PIPE if log is None else stack.enter_context(log.open("a"))
        running = subprocess.Popen(
            [*COMMAND, *arguments], env=variables, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.communicate()
            raise


def environment_of(home: Path, **settings: str) -> dict[str, str]:
    """The variables of a process with these settings and none of this process's own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAGSTONE_")}
    values: Mapping[str, str] = {"home": str(home), "test_embedder": "fake", "lang": "en"} | settings
    return kept | {f"RAGSTONE_{name.upper()}": value for name, value in values.items()}


@contextmanager
def serving(home: Path, *arguments: str, **settings: str) -> Iterator[str]:
    """The address of a `ragstone serve` on a free port of the loopback; it logs to `log_of(home)`."""
    log = log_of(home)
    with process("serve", "--port", "0", *arguments, home=home, log=log, **settings) as running:
        try:
            address = address_of(running)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{log.read_text()[-4_000:]}") from error
        yield address


def log_of(home: Path) -> Path:
    return home.with_name(f"{home.name}.log")


def address_of(running: subprocess.Popen[str]) -> str:
    """The address that a starting server says on its standard output."""
    assert running.stdout is not None
    until = time.monotonic() + START_S
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([running.stdout], [], [], left)
        line = running.stdout.readline() if ready else ""
        if "http://" in line:
            return "http://" + line.split("http://", 1)[1].split()[0].rstrip(".")
        if ready and not line:
            break
    running.kill()
    raise AssertionError(f"the server did not start:\n{running.communicate()[1]}")
