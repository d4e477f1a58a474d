"""`ragstone add`: files and folders into a base."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote

import typer

from ragstone.address import is_web
from ragstone.cli.options import Base, Glob, Jobs, Json, PasswordFile
from ragstone.cli.session import ingesting
from ragstone.cli.shapes import summary_json
from ragstone.cli.terminal import Terminal
from ragstone.cli.words import say, told
from ragstone.errors import InputError
from ragstone.types import DEFAULT_BASE, MEMBER_MARK

if TYPE_CHECKING:
    from ragstone.cli.session import OnEvent
    from ragstone.ingest import FileResult, IngestResult
    from ragstone.kb.facade import KnowledgeBases

MAX_JOBS = 64
# From this many files with one reason on, the reason is written once.
GROUPED = 4
SHOWN_REASONS = 3
"""Different reasons told for the members of one container."""

Sources = Annotated[list[str], typer.Argument(metavar="PATH", help=say("cli.arg_sources"))]


def add(
    sources: Sources,
    base: Base = None,
    glob: Glob = None,
    jobs: Jobs = None,
    password_file: PasswordFile = None,
    as_json: Json = False,
) -> int:
    terminal = Terminal(as_json=as_json)
    checked_sources(sources)
    checked_jobs(jobs)
    # A name that is blank is refused: it may be a variable that was never set.
    name = DEFAULT_BASE if base is None else base

    async def work(bases: KnowledgeBases, on_event: OnEvent) -> IngestResult:
        return await bases.add(*sources, base=name, glob=glob, jobs=jobs, on_event=on_event)

    result, seconds = ingesting(terminal, work, password_file=password_file)
    if as_json:
        terminal.emit(summary_json(name, result, seconds))
    else:
        show_summary(terminal, name, result, seconds)
    return exit_code(result)


def checked_jobs(jobs: int | None) -> None:
    if jobs is not None and not 1 <= jobs <= MAX_JOBS:
        raise InputError("cli.jobs", value=jobs, limit=MAX_JOBS)


def checked_sources(sources: list[str]) -> None:
    """Refuse what is no path, with the way to write it."""
    for source in sources:
        path = Path(source)
        if not source.strip():
            raise InputError("cli.source_blank")
        if is_web(source):
            continue
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
    show_remarks(terminal, result)


def show_remarks(terminal: Terminal, result: IngestResult) -> None:
    """What the reader should know of single files: warnings, and the reasons of failures."""
    failed = [file for file in result.files if file.status == "failed"]
    if warned := sum(bool(file.warnings) for file in result.files):
        terminal.line(say("cli.add_warned", count=warned), style="yellow")
    if failed:
        terminal.line(say("cli.add_failed"), style="bold red")
        _show_failures(terminal, failed)


def _show_failures(terminal: Terminal, failed: list[FileResult]) -> None:
    single, within = _by_container(failed)
    by_reason: dict[str, list[str]] = {}
    for file in single:
        by_reason.setdefault(_reason(file), []).append(file.name)
    few = [(name, reason) for reason, names in by_reason.items() if len(names) < GROUPED for name in names]
    if few:
        terminal.table(few, indent=2)
    for reason, names in by_reason.items():
        if len(names) >= GROUPED:
            terminal.line(say("cli.add_group", count=len(names), reason=reason), indent=2)
            for name in names:
                terminal.line(name, indent=4)
    for container, members in within.items():
        reasons = list(dict.fromkeys(map(_reason, members)))
        more = " ..." if len(reasons) > SHOWN_REASONS else ""
        shown = " | ".join(reasons[:SHOWN_REASONS]) + more
        terminal.line(say("cli.add_within", name=container, count=len(members), reasons=shown), indent=2)


def _by_container(failed: list[FileResult]) -> tuple[list[FileResult], dict[str, list[FileResult]]]:
    """Files to name one by one, and by container those of which there are many."""
    single: list[FileResult] = []
    members: dict[str, list[FileResult]] = {}
    for file in failed:
        container, mark, _ = file.uri.partition(MEMBER_MARK)
        (members.setdefault(container, []) if mark else single).append(file)
    few = [file for files in members.values() if len(files) < GROUPED for file in files]
    many = {uri: files for uri, files in members.items() if len(files) >= GROUPED}
    return single + few, {unquote(uri.rpartition("/")[2]): files for uri, files in many.items()}


def _reason(file: FileResult) -> str:
    """Why a file failed, without its name in front."""
    sentence = told(file.error) if file.error is not None else "?"
    for mark in (": ", "：", ":"):
        sentence = sentence.removeprefix(f"{file.name}{mark}")
    return sentence
