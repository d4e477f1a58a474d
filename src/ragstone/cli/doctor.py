"""`ragstone doctor`: what works, what does not, and what to do about it."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from ragstone.cli.options import Json
from ragstone.cli.progress import Notices
from ragstone.cli.terminal import Terminal
from ragstone.cli.words import say

Deep: TypeAlias = Annotated[bool, typer.Option("--deep", help=say("cli.opt_deep"))]
Offline: TypeAlias = Annotated[bool, typer.Option("--offline", help=say("cli.opt_offline"))]

_MARKS = {"ok": ("✓", "green"), "note": ("·", "yellow"), "failed": ("✗", "bold red")}
_PLAIN_MARKS = {"ok": "ok", "note": "--", "failed": "!!"}


def doctor(deep: Deep = False, offline: Offline = False, as_json: Json = False) -> int:
    import anyio

    from ragstone.kb.doctor import diagnose

    terminal = Terminal(as_json=as_json)
    notices = Notices(terminal)

    async def run():
        return await diagnose(deep=deep, offline=offline, on_notice=notices)

    try:
        checks = anyio.run(run)
    finally:
        notices.close()
    failed = sum(check.status == "failed" for check in checks)
    if as_json:
        shown = [
            {
                "name": check.name,
                "status": check.status,
                "code": check.key,
                "message": say(check.key, **check.values),
            }
            for check in checks
        ]
        terminal.emit({"ok": not failed, "checks": shown})
        return 1 if failed else 0
    for check in checks:
        mark, style = _MARKS[check.status]
        if not terminal.out.is_terminal:
            mark = _PLAIN_MARKS[check.status]
        terminal.line(f"{mark} {say(check.key, **check.values)}", style="" if check.status == "ok" else style)
    terminal.line()
    terminal.line(say("cli.doctor_failed", count=failed) if failed else say("cli.doctor_fine"), style="bold")
    return 1 if failed else 0
