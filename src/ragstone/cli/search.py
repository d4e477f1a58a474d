"""`ragstone search`: the passages for a text, without an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Optional

import typer

from ragstone.cli.answers import place, show_address
from ragstone.cli.ask import read_question
from ragstone.cli.options import Bases, Filter, Json, TopK, Words
from ragstone.cli.session import with_bases
from ragstone.cli.shapes import degraded_text, search_json
from ragstone.cli.terminal import Terminal, shortened
from ragstone.cli.words import say
from ragstone.highlight import highlights
from ragstone.types import Hit, SearchResult

if TYPE_CHECKING:
    from ragstone.kb.facade import KnowledgeBases

SNIPPET_LENGTH = 240

Mode = Annotated[Literal["hybrid", "vector", "text"], typer.Option("--mode", "-m", help=say("cli.opt_mode"))]
MinScore = Annotated[
    Optional[float],  # noqa: UP045 (read by typer at run time)
    typer.Option("--min-score", metavar="S", help=say("cli.opt_min_score")),
]
Rerank = Annotated[
    Optional[bool],  # noqa: UP045
    typer.Option("--rerank/--no-rerank", help=say("cli.opt_rerank")),
]


def search(
    question: Words,
    base: Bases = None,
    mode: Mode = "hybrid",
    top_k: TopK = None,
    min_score: MinScore = None,
    filter: Filter = None,
    rerank: Rerank = None,
    as_json: Json = False,
) -> int:
    terminal = Terminal(as_json=as_json)
    text = read_question(question)

    async def work(bases: KnowledgeBases) -> tuple[SearchResult, dict[str, str], dict[str, str]]:
        result = await bases.search(
            text, bases=base, mode=mode, top_k=top_k, min_score=min_score, filter=filter, rerank=rerank
        )
        files = await bases.file_names({hit.chunk.document_id: hit.uri for hit in result.hits})
        return result, await bases.base_names(), files

    result, names, files = with_bases(terminal, work)
    if as_json:
        terminal.emit(search_json(text, result, names, files))
    else:
        for rank, hit in enumerate(result.hits, 1):
            _show(terminal, rank, hit, names, files, text)
        for code in result.degraded:
            terminal.note(degraded_text(code), style="yellow")
        if not result.hits:
            terminal.note(say("cli.no_hits"))
    return 0 if result.hits else 3


def _show(
    terminal: Terminal, rank: int, hit: Hit, names: dict[str, str], files: dict[str, str], question: str
) -> None:
    scores = "  ".join(f"{score.scale} {score.value:.4g}" for score in hit.scores[-1:])
    base = names.get(hit.base_id, hit.base_id)
    terminal.line(
        f"{rank}. {place(hit.title or hit.uri, hit.chunk.place())}  ({base}, {scores})", style="bold"
    )
    snippet = shortened(hit.chunk.text, SNIPPET_LENGTH)
    terminal.line(snippet, indent=3, marked=highlights(question, snippet))
    name = files.get(hit.chunk.document_id, "")
    show_address(terminal, hit.uri, hit.chunk.page, hit.chunk.document_id, name=name, indent="   ")
