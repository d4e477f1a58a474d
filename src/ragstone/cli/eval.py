"""`ragstone eval`: how well the passages of a dataset are found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from ragstone.cli.options import Json
from ragstone.cli.progress import EvalProgress, Notices
from ragstone.cli.search import Mode
from ragstone.cli.session import with_bases
from ragstone.cli.shapes import evaluation_json
from ragstone.cli.terminal import Terminal
from ragstone.cli.words import say
from ragstone.errors import InputError
from ragstone.evaluate import read_dataset

if TYPE_CHECKING:
    from ragstone.kb.evaluation import Evaluation
    from ragstone.kb.facade import KnowledgeBases

Folder = Annotated[str, typer.Argument(metavar="DIR", help=say("cli.arg_dataset"))]
Corpus = Annotated[
    Optional[str],  # noqa: UP045 (read by typer at run time)
    typer.Option("--corpus", metavar="FILE", help=say("cli.opt_corpus")),
]
Base = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--base", "-b", metavar="NAME", help=say("cli.opt_base_eval")),
]
Limit = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--limit", "-n", metavar="N", help=say("cli.opt_limit")),
]


def evaluate(
    folder: Folder,
    corpus: Corpus = None,
    base: Base = None,
    mode: Mode = "hybrid",
    limit: Limit = None,
    as_json: Json = False,
) -> int:
    terminal = Terminal(as_json=as_json)
    if limit is not None and limit < 1:
        raise InputError("cli.eval_limit", value=limit)
    dataset = read_dataset(Path(folder), corpus=None if corpus is None else Path(corpus))
    if limit is not None:
        dataset = dataset.first(limit)
    if missing := dataset.missing:
        terminal.note(say("cli.eval_missing", count=missing), style="yellow")
    notices = Notices(terminal)
    progress = EvalProgress(notices, passages=len(dataset.passages))

    async def work(bases: KnowledgeBases) -> Evaluation:
        return await bases.evaluate(dataset, base=base, mode=mode, on_event=progress)

    result = with_bases(terminal, work, notices=notices)
    if result.failed:
        message = say("cli.eval_failed", count=result.failed, passages=result.passages)
        terminal.note(message, style="yellow")
    values = evaluation_json(mode, result)
    if as_json:
        terminal.emit(values)
    else:
        terminal.table([(name, str(value)) for name, value in values.items()])
    return 0
