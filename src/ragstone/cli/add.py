"""`ragstone add`: files and folders into a base."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from ragstone.cli.options import Base, Json
from ragstone.cli.progress import AddProgress, Notices
from ragstone.cli.session import with_bases
from ragstone.cli.shapes import event_json, summary_json
from ragstone.cli.terminal import Terminal
from ragstone.cli.words import say, told
from ragstone.errors import InputError
from ragstone.types import DEFAULT_BASE

if TYPE_CHECKING:
    from ragstone.ingest import FileResult, IngestEvent, IngestResult
    from ragstone.kb.facade import Found, KnowledgeBases

MAX_JOBS = 64
# From this many files with one reason on, the reason is written once.
GROUPED = 4

Sources = Annotated[list[str], typer.Argument(metavar="PATH", help=say("cli.arg_sources"))]
Glob = Annotated[
    Optional[str],  # noqa: UP045 (read by typer at run time)
    typer.Option("--glob", "-g", metavar="GLOB", help=say("cli.opt_glob")),
]
Jobs = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--jobs", "-j", metavar="N", help=say("cli.opt_jobs")),
]


def add(
    sources: Sources, base: Base = None, glob: Glob = None, jobs: Jobs = None, as_json: Json = False
) -> int:
    terminal = Terminal(as_json=as_json)
    checked_sources(sources)
    if jobs is not None and not 1 <= jobs <= MAX_JOBS:
        raise InputError("cli.jobs", value=jobs, limit=MAX_JOBS)
    # A name that is blank is refused: it may be a variable that was never set.
    name = DEFAULT_BASE if base is None else base
    notices = Notices(terminal)
    progress = AddProgress(notices)

    def on_event(event: Found | IngestEvent) -> None:
        if as_json:
            terminal.emit(event_json(event))
        progress(event)

    async def work(bases: KnowledgeBases) -> IngestResult:
        return await bases.add(*sources, base=name, glob=glob, jobs=jobs, on_event=on_event)

    started = time.perf_counter()
    result = with_bases(terminal, work, notices=notices)
    seconds = time.perf_counter() - started
    if as_json:
        terminal.emit(summary_json(name, result, seconds))
    else:
        show_summary(terminal, name, result, seconds)
    return exit_code(result)


def checked_sources(sources: list[str]) -> None:
    """Refuse what is no path, with the way to write it."""
    for source in sources:
        path = Path(source)
        if not source.strip():
            raise InputError("cli.source_blank")
        if source.lower().startswith(("http://", "https://")):
            raise InputError("kb.url_later", source=source)
        if any(char in source for char in "*?[") and not path.exists():
            folder = next(
                (parent for parent in path.parents if not any(char in str(parent) for char in "*?[")), Path()
            )
            pattern = path.relative_to(folder).as_posix()
            raise InputError("cli.source_pattern", source=source, folder=folder, pattern=pattern)


def exit_code(result: IngestResult) -> int:
    """3 when there was no file at all, 1 when every file failed, else 0."""
    if not result.files:
        return 3
    return 1 if result.count("failed") == len(result.files) else 0


def show_summary(terminal: Terminal, base: str, result: IngestResult, seconds: float) -> None:
    failed = [file for file in result.files if file.status == "failed"]
    terminal.line(
        say(
            "cli.add_done",
            base=base,
            files=len(result.files),
            ready=result.count("ready"),
            unchanged=result.count("unchanged"),
            failed=len(failed),
            chunks=result.chunks,
            seconds=seconds,
        )
    )
    if warned := sum(bool(file.warnings) for file in result.files):
        terminal.line(say("cli.add_warned", count=warned), style="yellow")
    if failed:
        terminal.line(say("cli.add_failed"), style="bold red")
        _show_failures(terminal, failed)


def _show_failures(terminal: Terminal, failed: list[FileResult]) -> None:
    by_reason: dict[str, list[str]] = {}
    for file in failed:
        by_reason.setdefault(_reason(file), []).append(file.name)
    few = [(name, reason) for reason, names in by_reason.items() if len(names) < GROUPED for name in names]
    if few:
        terminal.table(few, indent=2)
    for reason, names in by_reason.items():
        if len(names) >= GROUPED:
            terminal.line(say("cli.add_group", count=len(names), reason=reason), indent=2)
            for name in names:
                terminal.line(name, indent=4)


def _reason(file: FileResult) -> str:
    """Why a file failed, without its name in front."""
    sentence = told(file.error) if file.error is not None else "?"
    for mark in (": ", "：", ":"):
        sentence = sentence.removeprefix(f"{file.name}{mark}")
    return sentence
