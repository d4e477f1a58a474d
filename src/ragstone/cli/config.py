"""`ragstone config`: the settings in force, secrets masked, and where they come from."""

from __future__ import annotations

from ragstone.cli.options import Json
from ragstone.cli.terminal import Terminal
from ragstone.cli.words import say
from ragstone.kb.settings import FILE_NAME, load


def config(as_json: Json = False) -> int:
    terminal = Terminal(as_json=as_json)
    settings = load()
    file = settings.home / FILE_NAME
    shown = settings.shown()
    if as_json:
        terminal.emit(
            {"home": str(settings.home), "file": str(file), "file_exists": file.is_file(), "settings": shown}
        )
        return 0
    terminal.line(say("cli.config_home", home=settings.home))
    terminal.line(say("cli.config_file" if file.is_file() else "cli.config_no_file", file=file))
    terminal.line()
    terminal.table([(name, value or "-") for name, value in shown.items() if name != "home"])
    terminal.line()
    terminal.line(say("cli.config_how"), style="dim")
    return 0
