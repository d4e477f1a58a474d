"""`ragstone worker`: indexes what was uploaded, beside a server on this or other machines."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from ragstone.cli.options import Json
from ragstone.cli.terminal import Terminal
from ragstone.cli.words import say

Concurrency = Annotated[
    Optional[int],  # noqa: UP045 (read by typer at run time)
    typer.Option("--concurrency", min=1, metavar="N", help=say("cli.opt_concurrency")),
]


def worker(concurrency: Concurrency = None, as_json: Json = False) -> int:
    from ragstone.kb.serving import work
    from ragstone.kb.settings import load

    overrides = {} if concurrency is None else {"worker_concurrency": concurrency}
    settings = load(overrides=overrides)
    terminal = Terminal(as_json=as_json)
    count = max(1, settings.worker_concurrency)

    def on_ready() -> None:
        if as_json:
            terminal.emit({"concurrency": count})
        else:
            terminal.line(say("cli.working", count=count))

    work(settings, on_ready=on_ready)
    return 0
