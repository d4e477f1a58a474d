"""A chat model in this process: a GGUF file, run by llama.cpp through the xllamacpp package.

llama.cpp brings its own HTTP server, which listens on the loopback under a random port and
answers only who has the key drawn for it. It is spoken to like any other server, so that
streams, usage, errors and cancellation are those of `OpenAIChatModel`: closing the stream
ends the work, also while the prompt is still being read.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from anyio import CancelScope, to_thread

from ragstone.chat.openai import OpenAIChatModel
from ragstone.errors import MissingExtra, ModelUnavailable
from ragstone.types import Delta, Message

DEFAULT_CONTEXT = 8_192
"""Tokens of prompt and answer together."""

DEFAULT_TIMEOUT = 60.0
"""The longest silence in seconds between two words."""

FIRST_WORD_S = 180.0
"""A processor without GPU reads a long prompt for minutes."""


class LocalChatModel:
    """The chat model in `path`. Open one with `await LocalChatModel.open(...)`.

    Raises, from `stream` and `complete`: as `OpenAIChatModel`; ProviderRejected for a
    prompt longer than the context.
    """

    def __init__(self, server: Any, chat: OpenAIChatModel, name: str) -> None:
        self._server = server
        self._chat = chat
        self._name = name

    @classmethod
    async def open(
        cls,
        path: str | Path,
        *,
        context: int = DEFAULT_CONTEXT,
        threads: int | None = None,
        max_tokens: int | None = None,
        timeout: float = DEFAULT_TIMEOUT,  # noqa: ASYNC109 (of each silence, kept by the client)
    ) -> LocalChatModel:
        """Loads the model, which takes seconds. `threads`: by default as many as there are cores.

        Raises:
            MissingExtra: `ragstone[gguf]` is not installed.
            ModelUnavailable: no such file, or llama.cpp cannot load it.
        """
        key = secrets.token_urlsafe(24)
        server = await to_thread.run_sync(_started, Path(path), key, context, threads)
        chat = OpenAIChatModel(
            base_url=f"{server.listening_address}/v1",
            model=Path(path).stem,
            api_key=key,
            timeout=timeout,
            first_timeout=max(timeout, FIRST_WORD_S),
            max_retries=0,
            options={} if max_tokens is None else {"max_tokens": max_tokens},
            direct=True,
        )
        return cls(server, chat, Path(path).stem)

    @property
    def identity(self) -> str:
        return self._name

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[Delta]:
        async with aclosing(cast(Any, self._chat.stream(messages))) as deltas:
            async for delta in deltas:
                yield delta

    async def complete(self, messages: Sequence[Message]) -> Delta:
        return await self._chat.complete(messages)

    async def aclose(self) -> None:
        with CancelScope(shield=True):
            await self._chat.aclose()
            # The server stops when nothing holds it any more, which waits for its threads.
            servers, self._server = [self._server], None
            await to_thread.run_sync(servers.clear)


def _started(path: Path, key: str, context: int, threads: int | None) -> Any:
    try:
        library = cast(Any, import_module("xllamacpp"))
    except ImportError:
        raise MissingExtra("core.missing_extra", feature="LocalChatModel", extra="gguf") from None
    if not path.is_file():
        raise ModelUnavailable("chat.no_file", path=path)
    wanted = library.CommonParams()
    wanted.model.path = str(path)
    wanted.n_ctx = context
    wanted.api_keys = [key]
    wanted.endpoint_slots = False  # would show the prompts of others
    wanted.verbosity = -1  # the terminal is ours
    wanted.warmup = False
    if threads is not None:
        wanted.cpuparams.n_threads = threads
    try:
        return library.Server(wanted)
    except RuntimeError:
        raise ModelUnavailable("chat.bad_file", path=path) from None
