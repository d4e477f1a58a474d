"""`ragstone reindex`: build anew what can be built from the documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from ragstone.cli.options import Json
from ragstone.cli.progress import Notices
from ragstone.cli.session import with_bases
from ragstone.cli.terminal import Terminal
from ragstone.cli.words import say
from ragstone.errors import InputError

if TYPE_CHECKING:
    from rich.progress import TaskID

    from ragstone.kb.facade import KnowledgeBases

Index = Annotated[
    Optional[str],  # noqa: UP045 (read by typer at run time)
    typer.Option("--index", metavar="NAME", help=say("cli.opt_index")),
]


def reindex(index: Index = None, as_json: Json = False) -> int:
    terminal = Terminal(as_json=as_json)
    if index is None:
        raise InputError("cli.reindex_what")
    return _fill_index(terminal, index)


def _fill_index(terminal: Terminal, name: str) -> int:
    notices = Notices(terminal)
    progress = _Progress(notices)

    async def work(bases: KnowledgeBases) -> int:
        return await bases.rebuild_index(name, on_filled=progress)

    vectors = with_bases(terminal, work, notices=notices)
    if terminal.as_json:
        terminal.emit({"index": name, "vectors": vectors})
    else:
        terminal.line(say("cli.reindex_done", name=name, count=vectors))
    return 0


class _Progress:
    """Vectors put and in all."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._task: TaskID | None = None

    def __call__(self, done: int, total: int) -> None:
        if not self._notices.live:
            return
        display = self._notices.display()
        if self._task is None:
            self._task = display.add_task("", total=total, facts="")
        sentence = say("cli.reindex_vectors", done=done, total=total)
        display.update(self._task, description=sentence, completed=done, total=total)
