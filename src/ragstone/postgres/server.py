"""The embedded PostgreSQL: one server per home, shared by all processes that use it."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import anyio
import anyio.from_thread
import anyio.to_thread

from ragstone.errors import ServerFailed

if TYPE_CHECKING:
    from ragstone.postgres.cluster import Cluster

OnMessage = Callable[[str, Mapping[str, object]], None]


class EmbeddedServer:
    """Made by `EmbeddedServer.start`; `aclose` stops the server if this is its last user.

    A process that ends without `aclose` lets go at its exit; one that is killed leaves
    the server to the next user, which attaches and stops it.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._release = weakref.finalize(self, cluster.release)

    @classmethod
    async def start(
        cls,
        home: Path,
        *,
        on_message: OnMessage | None = None,
        runtime_folder: Path | None = None,
        tcp: bool = False,
    ) -> EmbeddedServer:
        """Start the server of `home`, or attach to it when it runs.

        `on_message` gets a message key and its values before the first start, which takes
        seconds. `runtime_folder` is where root keeps readable binaries, `tcp` listens on
        loopback with a password in place of a socket.

        Raises MissingExtra, StoreIncompatible (data of another PostgreSQL version),
        StoreFull, StoreUnavailable (another process has been starting it for minutes),
        and ServerFailed with the reason and what to do.
        """
        if sys.platform == "win32":
            raise ServerFailed("postgres.platform", platform="Windows")
        from ragstone.postgres.cluster import Cluster
        from ragstone.postgres.runtime import RUNTIME_FOLDER

        def report(key: str, values: Mapping[str, object]) -> None:
            if on_message is not None:
                anyio.from_thread.run_sync(on_message, key, values)

        def attach() -> EmbeddedServer:
            cluster = Cluster(home, runtime_folder=runtime_folder or RUNTIME_FOLDER, tcp=tcp)
            server = cls(cluster)
            try:
                cluster.attach(report)
            except BaseException:
                server._release()
                raise
            return server

        return await anyio.to_thread.run_sync(attach)

    async def ensure_running(self) -> str:
        """The conninfo of the server, started anew if it crashed; give this to `Database.open`."""
        return await anyio.to_thread.run_sync(self._cluster.ensure_running)

    @property
    def conninfo(self) -> str:
        """Where the server listens now."""
        return self._cluster.conninfo()

    @property
    def folder(self) -> Path:
        """The server's state: data, log, locks."""
        return self._cluster.folder

    async def aclose(self) -> None:
        """Let go of the server, and stop it if no other process uses it. May be called twice."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._release)

    async def __aenter__(self) -> EmbeddedServer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
