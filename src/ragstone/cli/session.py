"""One command's use of the knowledge bases: opened, used, closed."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from ragstone.cli.progress import AddProgress, Notices
from ragstone.cli.shapes import event_json
from ragstone.cli.terminal import Terminal

if TYPE_CHECKING:
    from ragstone.ingest import IngestEvent
    from ragstone.kb.bootstrap import App
    from ragstone.kb.facade import Found, KnowledgeBases

    OnEvent: TypeAlias = Callable[[Found | IngestEvent], None]

T = TypeVar("T")


def with_bases(
    terminal: Terminal,
    work: Callable[[KnowledgeBases], Awaitable[T]],
    *,
    notices: Notices | None = None,
    password_file: str | None = None,
) -> T:
    """Run `work` with the knowledge bases of the settings; long waits are shown meanwhile."""
    import anyio
    import anyio.to_thread

    from ragstone.kb.facade import KnowledgeBases
    from ragstone.kb.settings import load

    notices = notices or Notices(terminal)

    async def run() -> T:
        overrides = {} if password_file is None else {"password_file": password_file}
        settings = await anyio.to_thread.run_sync(lambda: load(overrides=overrides))
        bases = await KnowledgeBases.open(settings, on_notice=notices)
        try:
            result = await work(bases)
        finally:
            notices.close()
            await bases.aclose()
        return result

    return anyio.run(run)


def with_app(terminal: Terminal, work: Callable[[App], Awaitable[T]]) -> T:
    """Run `work` with the parts of the application, its tables up to date."""
    import anyio
    import anyio.to_thread

    from ragstone.kb.bootstrap import App
    from ragstone.kb.settings import load

    notices = Notices(terminal)

    async def run() -> T:
        app = App(await anyio.to_thread.run_sync(load), notices)
        try:
            await app.store()
            result = await work(app)
        finally:
            notices.close()
            await app.aclose()
        return result

    return anyio.run(run)


def ingesting(
    terminal: Terminal,
    work: Callable[[KnowledgeBases, OnEvent], Awaitable[T]],
    *,
    password_file: str | None,
) -> tuple[T, float]:
    """Run `work` with its progress shown, or its events written as JSON; what came of it, and the seconds."""
    notices = Notices(terminal)
    progress = AddProgress(notices)

    def on_event(event: Found | IngestEvent) -> None:
        if terminal.as_json:
            terminal.emit(event_json(event))
        progress(event)

    started = time.perf_counter()
    result = with_bases(
        terminal, lambda bases: work(bases, on_event), notices=notices, password_file=password_file
    )
    return result, time.perf_counter() - started
