"""What a process does again and again beside its work."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio

from ragstone.errors import RagstoneError

_LOGGER = logging.getLogger(__name__)


async def repeated(work: Callable[[], Awaitable[object]], seconds: float, *, failed: str) -> None:
    """Do `work` at once and then every so many seconds until it is cancelled; `failed` is for the log."""
    while True:
        try:
            await work()
        except RagstoneError as error:
            _LOGGER.warning(failed, extra={"code": error.code})
        await anyio.sleep(seconds)
