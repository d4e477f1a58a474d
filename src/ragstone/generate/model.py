"""Answers written by a chat model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

from ragstone.protocols import ChatModel
from ragstone.types import Delta, Prompt


class ModelGenerator:
    """The generator over a chat model: its deltas as they come.

    Some servers put the opening `<think>` into the model's own template, so that only the
    closing tag arrives. With `thinks=True` the text is taken as reasoning until then.

    Raises:
        ProviderError: what the chat model raises.
    """

    def __init__(self, chat: ChatModel, *, thinks: bool = False) -> None:
        self._chat = chat
        self._thinks = thinks

    @property
    def identity(self) -> str:
        return self._chat.identity

    async def __call__(self, prompt: Prompt) -> AsyncIterator[Delta]:
        if self._thinks:
            yield Delta(text="<think>")
        stream = self._chat.stream(prompt.messages)
        try:
            async for delta in stream:
                yield delta
        finally:
            # A client that goes away must close the model's connection too.
            close = cast(Any, getattr(stream, "aclose", None))
            if close is not None:
                await close()
