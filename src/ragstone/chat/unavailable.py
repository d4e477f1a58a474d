"""Stands in for a chat model that could not be opened: answers go on without it, and are marked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from ragstone.errors import RagstoneError
from ragstone.types import Delta, Message


class UnavailableChatModel:
    """Raises `error`, why it could not be opened, whatever it is asked."""

    identity = "unavailable"

    def __init__(self, error: RagstoneError) -> None:
        self._error = error

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[Delta]:
        raise self._error
        yield  # makes this an async generator

    async def complete(self, messages: Sequence[Message]) -> Delta:
        raise self._error

    async def aclose(self) -> None:
        """Nothing is open."""
