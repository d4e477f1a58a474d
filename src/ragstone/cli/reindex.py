"""`ragstone reindex`: a base built anew beside the generation that answers, or an index filled anew."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from ragstone.cli.options import Base, Json
from ragstone.cli.progress import AddProgress, Counted, Notices
from ragstone.cli.session import with_bases
from ragstone.cli.shapes import reindexed_json
from ragstone.cli.terminal import Terminal
from ragstone.cli.words import say
from ragstone.errors import InputError
from ragstone.evaluate import read_questions

if TYPE_CHECKING:
    from ragstone.kb.facade import KnowledgeBases
    from ragstone.kb.reindex import Reindexed

RollBack = Annotated[bool, typer.Option("--rollback", help=say("cli.opt_rollback"))]
Collect = Annotated[bool, typer.Option("--collect", help=say("cli.opt_collect"))]
Golden = Annotated[
    Optional[str],  # noqa: UP045 (read by typer at run time)
    typer.Option("--golden", metavar="DIR", help=say("cli.opt_golden")),
]

Index = Annotated[
    Optional[str],  # noqa: UP045 (read by typer at run time)
    typer.Option("--index", metavar="NAME", help=say("cli.opt_index")),
]


def reindex(
    base: Base = None,
    rollback: RollBack = False,
    collect: Collect = False,
    golden: Golden = None,
    index: Index = None,
    as_json: Json = False,
) -> int:
    terminal = Terminal(as_json=as_json)
    ways = rollback + collect + (golden is not None)
    if ways > 1 or (base is None) == (index is None) or (index is not None and ways):
        raise InputError("cli.reindex_usage")
    if index is not None:
        return _fill_index(terminal, index)
    assert base is not None  # one of the two
    if collect:
        return _collect(terminal, base)
    return _reindex(terminal, base, rollback, None if golden is None else Path(golden))


def _reindex(terminal: Terminal, base: str, rollback: bool, golden: Path | None) -> int:
    questions = None if golden is None else read_questions(golden)
    notices = Notices(terminal)
    progress = AddProgress(notices, sentence="cli.reindex_documents")

    async def work(bases: KnowledgeBases) -> Reindexed:
        if rollback:
            return await bases.roll_back(base, on_event=progress)
        return await bases.reindex(base, golden=questions, on_event=progress)

    result = with_bases(terminal, work, notices=notices)
    if terminal.as_json:
        terminal.emit(reindexed_json(base, result))
        return 0
    after = result.generation
    values = {"base": base, "documents": after.documents, "chunks": after.chunks, "model": after.model}
    terminal.line(say("cli.reindex_swapped" if result.swapped else "cli.reindex_same", **values))
    if result.swapped:
        terminal.line(say("cli.reindex_back", base=base), style="dim")
    return 0


def _collect(terminal: Terminal, base: str) -> int:
    async def work(bases: KnowledgeBases) -> int:
        return await bases.collect(base)

    count = with_bases(terminal, work)
    if terminal.as_json:
        terminal.emit({"base": base, "collected": count})
    else:
        terminal.line(say("cli.reindex_collected", count=count))
    return 0


def _fill_index(terminal: Terminal, name: str) -> int:
    notices = Notices(terminal)
    progress = Counted(notices, sentence="cli.reindex_vectors")

    async def work(bases: KnowledgeBases) -> int:
        return await bases.rebuild_index(name, on_filled=progress)

    vectors = with_bases(terminal, work, notices=notices)
    if terminal.as_json:
        terminal.emit({"index": name, "vectors": vectors})
    else:
        terminal.line(say("cli.reindex_done", name=name, count=vectors))
    return 0
