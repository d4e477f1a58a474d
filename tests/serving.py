"""`ragstone serve` as a real process, for tests that speak HTTP with it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

START_S = 60.0
STOP_S = 30.0


@contextmanager
def process(*arguments: str, home: Path, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """`ragstone *arguments` with the fake embedder unless `settings` say otherwise; ended afterwards."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAGSTONE_")}
    values: Mapping[str, str] = {"home": str(home), "test_embedder": "fake", "lang": "en"} | settings
    environment |= {f"RAGSTONE_{name.upper()}": value for name, value in values.items()}
    code = "from ragstone.cli import run; run()"
    running = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
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


@contextmanager
def serving(home: Path, *arguments: str, **settings: str) -> Iterator[str]:
    """The address of a `ragstone serve` on a free port of the loopback interface."""
    with process("serve", "--port", "0", *arguments, home=home, **settings) as running:
        yield address_of(running)


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
