"""`ragstone show` and `ragstone parse`: one document, as stored and as the parser sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ragstone.cli.answers import UPLOADED, local_path, opening, place
from ragstone.cli.options import Base, Json, PasswordFile
from ragstone.cli.session import with_bases
from ragstone.cli.shapes import chunk_json, document_json, info_json
from ragstone.cli.terminal import Terminal
from ragstone.cli.words import language, say
from ragstone.types import MEMBER_MARK, Chunk, Document

if TYPE_CHECKING:
    from ragstone.kb.documents import DocumentInfo
    from ragstone.kb.facade import KnowledgeBases

Reference = Annotated[str, typer.Argument(metavar="DOC", help=say("cli.arg_document"))]
File = Annotated[str, typer.Argument(metavar="FILE", help=say("cli.arg_file"))]
Chunks = Annotated[bool, typer.Option("--chunks", help=say("cli.opt_chunks"))]
Text = Annotated[bool, typer.Option("--text", help=say("cli.opt_text"))]


def show(
    document: Reference, base: Base = None, chunks: Chunks = False, text: Text = False, as_json: Json = False
) -> int:
    terminal = Terminal(as_json=as_json)

    async def work(bases: KnowledgeBases) -> tuple[DocumentInfo, Document, list[Chunk]]:
        info, found = await bases.document(document, base=base)
        return info, found, await bases.chunks(info.document_id) if chunks else []

    info, found, cut = with_bases(terminal, work)
    if as_json:
        value = {**info_json(info), **document_json(found), "page_count": info.pages}
        terminal.emit({**value, "chunks": [chunk_json(chunk) for chunk in cut]} if chunks else value)
        return 0
    _show_facts(terminal, info, found)
    _show_outline(terminal, found)
    if text:
        terminal.line()
        _show_text(terminal, found)
    for chunk in cut:
        terminal.line()
        head = place(say("cli.chunk", index=chunk.index, start=chunk.start, end=chunk.end), chunk.place())
        terminal.line(f"{head}  {chunk.chunk_id}", style="bold")
        if chunk.context:
            terminal.line(chunk.context, style="dim")
        terminal.line(chunk.text)
    return 0


def parse(file: File, password_file: PasswordFile = None, as_json: Json = False) -> int:
    terminal = Terminal(as_json=as_json)

    async def work(bases: KnowledgeBases) -> Document:
        return await bases.parse(file)

    document = with_bases(terminal, work, password_file=password_file)
    if as_json:
        terminal.emit(document_json(document))
        return 0
    for warning in document.warnings:
        terminal.note(say("cli.warning", warning=warning.text(language())), style="yellow")
    terminal.line(document.title, style="bold")
    _show_outline(terminal, document)
    terminal.line()
    _show_text(terminal, document)
    return 0


def _show_facts(terminal: Terminal, info: DocumentInfo, document: Document) -> None:
    terminal.line(info.title or info.uri, style="bold")
    if info.uri.startswith(UPLOADED):
        terminal.line(info.name or info.uri.partition(MEMBER_MARK)[2])
    else:
        terminal.link(local_path(info.uri), opening(info.uri, None))
    rows = [
        (say("cli.fact_id"), info.document_id),
        (say("cli.fact_base"), info.base),
        (say("cli.fact_type"), info.media_type),
        (say("cli.fact_size"), f"{info.characters:,}"),
        (say("cli.fact_pages"), f"{info.pages:,}" if info.pages else ""),
        (say("cli.fact_chunks"), f"{info.chunks:,}"),
        (say("cli.fact_updated"), f"{info.updated_at.astimezone():%Y-%m-%d %H:%M}"),
        *((name, str(value)) for name, value in document.metadata.items()),
    ]
    terminal.table([row for row in rows if row[1]], indent=2)
    for warning in info.warnings:
        terminal.line(say("cli.warning", warning=warning.text(language())), style="yellow")


def _show_outline(terminal: Terminal, document: Document) -> None:
    for heading in document.headings:
        if heading.path:
            terminal.line(heading.path[-1], style="dim", indent=2 * len(heading.path))


def _show_text(terminal: Terminal, document: Document) -> None:
    """The text; where it has pages, with a mark before each."""
    end = 0
    for page in document.pages:
        if between := document.text[end : page.start].strip("\n"):
            terminal.line(between)
        terminal.line(say("cli.page_mark", number=page.number), style="dim")
        terminal.line(document.text[page.start : page.end].rstrip("\n"))
        end = page.end
    if rest := document.text[end:].rstrip("\n"):
        terminal.line(rest)
