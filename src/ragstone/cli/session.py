"""One command's use of the knowledge bases: opened, used, closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from ragstone.cli.progress import Notices
from ragstone.cli.terminal import Terminal

if TYPE_CHECKING:
    from ragstone.kb.facade import KnowledgeBases

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
