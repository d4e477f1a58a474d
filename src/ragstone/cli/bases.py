"""`ragstone list`, `rm` and `verify-deleted`: what the bases hold, taking it out, and the proof."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from ragstone.cli.answers import SHORT_ID, local_path
from ragstone.cli.options import Base, Json
from ragstone.cli.session import with_bases
from ragstone.cli.shapes import base_json, info_json, proof_json
from ragstone.cli.terminal import Terminal
from ragstone.cli.words import say
from ragstone.errors import InputError
from ragstone.types import DeletionReport

if TYPE_CHECKING:
    from ragstone.kb.bases import BaseInfo
    from ragstone.kb.documents import DocumentInfo
    from ragstone.kb.facade import KnowledgeBases
    from ragstone.store.deletion import Proof

References = Annotated[
    Optional[list[str]],  # noqa: UP045 (read by typer at run time)
    typer.Argument(metavar="DOC", help=say("cli.arg_documents")),
]
DeletedId = Annotated[str, typer.Argument(metavar="ID", help=say("cli.arg_deleted"))]
Everything = Annotated[bool, typer.Option("--all", help=say("cli.opt_all"))]
Yes = Annotated[bool, typer.Option("--yes", "-y", help=say("cli.opt_yes"))]


def list_documents(base: Base = None, as_json: Json = False) -> int:
    terminal = Terminal(as_json=as_json)

    async def work(bases: KnowledgeBases) -> tuple[list[BaseInfo], list[DocumentInfo]]:
        documents = await bases.documents(base)  # an unknown base is refused here
        return [info for info in await bases.bases() if base in (None, info.name)], documents

    bases, documents = with_bases(terminal, work)
    if as_json:
        terminal.emit(
            {
                "bases": [base_json(info) for info in bases],
                "documents": [info_json(info) for info in documents],
            }
        )
        return 0
    if not bases:
        terminal.line(say("cli.list_empty"))
    for info in bases:
        terminal.line(say("cli.list_base", **_facts(info)), style="bold")
        terminal.table([_row(found) for found in documents if found.base == info.name], indent=2)
    return 0


def _facts(info: BaseInfo) -> dict[str, object]:
    return {"name": info.name, "documents": info.documents, "chunks": info.chunks, "model": info.model or "-"}


def _row(info: DocumentInfo) -> tuple[str, ...]:
    size = say("cli.list_chunks", chunks=info.chunks)
    if info.pages:
        size = f"{say('cli.list_pages', pages=info.pages)}, {size}"
    name, file = info.title or info.uri, info.name or Path(local_path(info.uri)).name
    if file != name:
        name = f"{name}  ({file})"
    warned = say("cli.list_warnings", count=len(info.warnings)) if info.warnings else ""
    return info.document_id[:SHORT_ID], f"{info.updated_at.astimezone():%Y-%m-%d}", name, size, warned


def remove(
    documents: References = None,
    base: Base = None,
    everything: Everything = False,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    terminal = Terminal(as_json=as_json)
    references = documents or []
    if bool(references) == everything or (everything and base is None):
        raise InputError("cli.rm_usage")
    if everything and not yes:
        _confirm(terminal, str(base))

    async def work(bases: KnowledgeBases) -> DeletionReport:
        if everything:
            return await bases.remove_base(str(base))
        return await bases.remove(*references, base=base)

    report = with_bases(terminal, work)
    if as_json:
        terminal.emit({"document_ids": report.document_ids, "rows": report.rows})
    else:
        terminal.line(say("cli.rm_done", count=len(report.document_ids)))
        terminal.table([(table, f"{rows:,}") for table, rows in report.rows.items()], indent=2)
        if report.document_ids:
            terminal.line(say("cli.rm_verify", document_id=report.document_ids[0]), style="dim")
    return 0


def verify_deleted(document: DeletedId, as_json: Json = False) -> int:
    terminal = Terminal(as_json=as_json)

    async def work(bases: KnowledgeBases) -> Proof:
        return await bases.verify_deleted(document)

    proof = with_bases(terminal, work)
    if as_json:
        terminal.emit(proof_json(proof))
    else:
        moment = f"{proof.deleted_at.astimezone():%Y-%m-%d %H:%M:%S}"
        terminal.line(say("cli.proof_deleted", document_id=proof.document_id, moment=moment))
        # Of the application's tables it is not on record how many went.
        gone = {table: f"{count:,}" for table, count in proof.deleted.items()}
        rows = [(table, gone.get(table, "-"), f"{left:,}") for table, left in proof.left.items()]
        terminal.table([("", say("cli.proof_rows"), say("cli.proof_left")), *rows], indent=2)
        tables = ", ".join(table for table, left in proof.left.items() if left)
        if tables:
            terminal.line(say("cli.proof_incomplete", tables=tables), style="bold red")
        if proof.untold:
            terminal.line(say("cli.proof_untold", count=proof.untold), style="bold red")
        if proof.complete:
            terminal.line(say("cli.proof_complete"), style="bold")
    return 0 if proof.complete else 1


def _confirm(terminal: Terminal, base: str) -> None:
    """Ask before a whole base goes; without a terminal, `--yes` must say it."""
    if terminal.as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError("cli.rm_yes", base=base)
    terminal.note(say("cli.rm_confirm", base=base), style="bold")
    if sys.stdin.readline().strip().lower() not in ("y", "yes", "是"):
        raise typer.Abort
