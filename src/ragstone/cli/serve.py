"""`ragstone serve`: the HTTP API, and a worker beside it."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from ragstone.cli.options import Json
from ragstone.cli.terminal import Terminal
from ragstone.cli.words import say

Host = Annotated[
    Optional[str],  # noqa: UP045 (read by typer at run time)
    typer.Option("--host", metavar="ADDRESS", help=say("cli.opt_host")),
]
Port = Annotated[
    Optional[int],  # noqa: UP045 (read by typer at run time)
    typer.Option("--port", metavar="N", help=say("cli.opt_port")),
]


def serve(host: Host = None, port: Port = None, as_json: Json = False) -> int:
    from ragstone.kb.serving import run
    from ragstone.kb.settings import load

    overrides = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    terminal = Terminal(as_json=as_json)

    def on_ready(url: str) -> None:
        if as_json:
            terminal.emit({"url": url})
        else:
            terminal.line(say("cli.serving", url=url))

    run(load(overrides=overrides), on_ready=on_ready)
    return 0
