"""`ragstone sync`: a base made equal to a folder, a file or a sitemap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ragstone.address import readable
from ragstone.cli.add import checked_jobs, checked_sources, show_remarks
from ragstone.cli.options import Glob, Jobs, Json, PasswordFile
from ragstone.cli.session import ingesting
from ragstone.cli.shapes import sync_json
from ragstone.cli.terminal import Terminal
from ragstone.cli.words import say

if TYPE_CHECKING:
    from ragstone.cli.session import OnEvent
    from ragstone.kb.facade import KnowledgeBases
    from ragstone.kb.syncing import SyncResult

Source = Annotated[str, typer.Argument(metavar="PATH", help=say("cli.arg_source"))]
Into = Annotated[str, typer.Option("--base", "-b", metavar="NAME", help=say("cli.opt_base_one"))]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help=say("cli.opt_dry_run"))]
AllowEmpty = Annotated[bool, typer.Option("--allow-empty", help=say("cli.opt_allow_empty"))]


def sync(
    source: Source,
    base: Into,
    glob: Glob = None,
    jobs: Jobs = None,
    dry_run: DryRun = False,
    allow_empty: AllowEmpty = False,
    password_file: PasswordFile = None,
    as_json: Json = False,
) -> int:
    terminal = Terminal(as_json=as_json)
    checked_sources([source])
    checked_jobs(jobs)

    async def work(bases: KnowledgeBases, on_event: OnEvent) -> SyncResult:
        return await bases.sync(
            source,
            base=base,
            glob=glob,
            jobs=jobs,
            dry_run=dry_run,
            allow_empty=allow_empty,
            on_event=on_event,
        )

    result, seconds = ingesting(terminal, work, password_file=password_file)
    if as_json:
        terminal.emit(sync_json(base, result, seconds))
    else:
        _show(terminal, base, result, seconds)
    return 1 if result.ingest.count("failed") else 0


def _show(terminal: Terminal, base: str, result: SyncResult, seconds: float) -> None:
    ingest = result.ingest
    if result.dry_run:
        terminal.line(say("cli.sync_plan"), style="bold")
    terminal.line(
        say(
            "cli.sync_done",
            base=base,
            added=result.added,
            updated=result.updated,
            unchanged=ingest.count("unchanged"),
            deleted=len(result.gone),
            failed=ingest.count("failed"),
            seconds=seconds,
        )
    )
    terminal.line(
        say(
            "cli.sync_chunks",
            embedded=ingest.embedded,
            tokens=ingest.tokens,
            reused=ingest.reused,
            deleted=result.chunks_deleted,
        )
    )
    if result.deleted.rows:
        rows = ", ".join(f"{table} {count:,}" for table, count in result.deleted.rows.items())
        terminal.line(say("cli.sync_rows", rows=rows))
    if result.gone:
        terminal.line(say("cli.sync_going" if result.dry_run else "cli.sync_gone"))
        for uri in result.gone:
            terminal.line(readable(uri), indent=2)
    if result.outside:
        terminal.line(say("cli.sync_outside", count=result.outside), style="yellow")
    show_remarks(terminal, ingest)
