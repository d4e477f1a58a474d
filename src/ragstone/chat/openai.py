"""Any server that speaks OpenAI's chat protocol, through the openai SDK.

Hosted (OpenAI, DashScope compatible mode, DeepSeek) or your own (Ollama, vLLM,
llama.cpp). Retries and errors: see `compatible`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio

from ragstone.chat.sse import EventReader, ServerEvent
from ragstone.compatible import CompatibleServer, Refusal, Trouble, details
from ragstone.errors import ContentRefused, ProviderError, ProviderRejected, ProviderUnavailable
from ragstone.types import Delta, Message, Usage

if TYPE_CHECKING:
    from openai import AsyncAPIResponse, AsyncOpenAI

DEFAULT_TIMEOUT = 60.0
_T = TypeVar("_T")
_ERRORS: Mapping[Trouble, tuple[type[ProviderError], str]] = {
    "timeout": (ProviderUnavailable, "chat.timeout"),
    "connection": (ProviderUnavailable, "chat.connection"),
    "garbled": (ProviderUnavailable, "chat.garbled"),
    "key": (ProviderRejected, "chat.key"),
    "not_found": (ProviderRejected, "chat.not_found"),
    "quota": (ProviderRejected, "chat.quota"),
    "filtered": (ContentRefused, "chat.filtered"),
    "busy": (ProviderUnavailable, "chat.busy"),
    "rejected": (ProviderRejected, "chat.rejected"),
}


class OpenAIChatModel:
    """The chat model `model` at `base_url` (with its `/v1`).

    `api_key` may be empty for a server that asks for none. `timeout` is the longest
    silence in seconds, `first_timeout` the longest wait for the first byte with all
    retries (by default three times `timeout`). `options` go into the request as they are
    (`temperature`, `max_tokens`, ...). `direct` goes around the proxies of the environment.

    Raises, from `stream` and `complete`:
        ProviderUnavailable: 429, 5xx, time-out, no or a cut connection, an answer that
            ends without a finish reason.
        ProviderRejected: another 4xx, a used-up quota; ContentRefused: a filtered answer.
        MissingExtra: the openai package is not installed.
    """

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        api_key: str = "",
        timeout: float = DEFAULT_TIMEOUT,
        first_timeout: float | None = None,
        max_retries: int = 2,
        options: Mapping[str, object] | None = None,
        direct: bool = False,
    ) -> None:
        self._server = CompatibleServer(
            base_url=base_url,
            api_key=api_key,
            timeout=timeout,
            max_retries=max_retries,
            direct=direct,
            feature="OpenAIChatModel",
        )
        self._model = model
        self._timeout = timeout
        self._first_timeout = first_timeout if first_timeout is not None else 3 * timeout
        self._options = dict(options or {})
        self._counts_usage = True

    @property
    def identity(self) -> str:
        return self._model

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[Delta]:
        """The answer as it comes; closing the iterator closes the connection."""
        client = await self._server.client()
        with self._server.errors_as(self._error):
            response = await self._within(self._start(client, messages))
            try:
                async with aclosing(self._deltas(response)) as deltas:
                    async for delta in deltas:
                        yield delta
            finally:
                with anyio.CancelScope(shield=True):
                    await response.close()

    async def _deltas(self, response: AsyncAPIResponse[Any]) -> AsyncGenerator[Delta, None]:
        """The deltas of an answer that ends: with a finish reason, or with `[DONE]` behind some choice."""
        begun = finished = False
        async with aclosing(self._chunks(response)) as chunks:
            async for chunk in chunks:
                if chunk is None:
                    finished = finished or begun
                    break
                delta, reason = self._read_chunk(chunk)
                begun = begun or bool(chunk.get("choices"))
                finished = finished or bool(reason)
                if delta.text or delta.usage:
                    yield delta
                if reason == "content_filter":
                    raise ContentRefused("chat.filtered", model=self._model)
        if not finished:
            raise ProviderUnavailable("chat.cut", url=self._server.url)

    async def complete(self, messages: Sequence[Message]) -> Delta:
        client = await self._server.client()
        with self._server.errors_as(self._error):
            completion = await self._within(
                client.chat.completions.create(
                    model=self._model,
                    messages=_plain(messages),
                    extra_body=self._options or None,
                    extra_headers=self._server.headers,
                )
            )
            answer = details(completion.model_dump() if hasattr(completion, "model_dump") else None)
            choice = self._choice(answer)
            if not choice.get("message"):
                raise ProviderUnavailable("chat.cut" if answer else "chat.garbled", url=self._server.url)
            if choice.get("finish_reason") == "content_filter":
                raise ContentRefused("chat.filtered", model=self._model)
            text = details(choice["message"]).get("content")
            return Delta(text=text if isinstance(text, str) else "", usage=_usage(answer.get("usage")))

    async def aclose(self) -> None:
        await self._server.aclose()

    async def _start(self, client: AsyncOpenAI, messages: Sequence[Message]) -> AsyncAPIResponse[Any]:
        """Ask for usage in the stream, and go without where the server does not know it."""
        from openai import BadRequestError, UnprocessableEntityError, omit

        while True:
            counted = self._counts_usage
            # The SDK's own reader drops a last event without a blank line and hides [DONE].
            request = client.chat.completions.with_streaming_response.create(
                model=self._model,
                messages=_plain(messages),
                stream=True,
                stream_options={"include_usage": True} if counted else omit,
                extra_body=self._options or None,
                extra_headers=self._server.headers,
            )
            try:
                return await request.__aenter__()
            except (BadRequestError, UnprocessableEntityError) as error:
                # No code says so: a server that names the option does not know it.
                if not counted or "stream_options" not in f"{error.message} {error.body}":
                    raise
                self._counts_usage = False

    async def _chunks(
        self, response: AsyncAPIResponse[Any]
    ) -> AsyncGenerator[Mapping[str, object] | None, None]:
        """The chunks of the stream, and None for `[DONE]`."""
        reader = EventReader()
        pieces = aiter(response.iter_bytes())
        while (piece := await self._within(anext(pieces, None))) is not None:
            for event in reader.feed(piece):
                yield _chunk(event)
        for event in reader.finish():
            yield _chunk(event)

    async def _within(self, awaitable: Awaitable[_T]) -> _T:
        with anyio.fail_after(self._first_timeout):
            return await awaitable

    def _read_chunk(self, chunk: Mapping[str, object]) -> tuple[Delta, str]:
        """The text, the usage and the finish reason of a chunk, each of which may be missing."""
        choice = self._choice(chunk)
        text = details(choice.get("delta")).get("content")
        delta = Delta(text=text if isinstance(text, str) else "", usage=_usage(chunk.get("usage")))
        return delta, str(choice.get("finish_reason") or "")

    def _choice(self, answer: Mapping[str, object]) -> Mapping[str, object]:
        """The first choice, or an empty one. Raises on an error that came under HTTP 200."""
        if choices := cast("list[object]", answer.get("choices") or []):
            return details(choices[0])
        if error := answer.get("error"):
            raise self._error(self._server.said(error))
        if "message" in answer:
            raise self._error(self._server.said(answer))
        return {}

    def _error(self, refusal: Refusal) -> ProviderError:
        kind, key = _ERRORS[refusal.trouble]
        return kind(
            key,
            url=self._server.url,
            model=self._model,
            seconds=self._timeout,
            status=refusal.status,
            reason=refusal.reason,
        )


def _plain(messages: Sequence[Message]) -> Any:
    return [{"role": message.role, "content": message.content} for message in messages]


def _chunk(event: ServerEvent) -> Mapping[str, object] | None:
    if event.data.startswith("[DONE]"):
        return None
    chunk = json.loads(event.data)
    if not isinstance(chunk, dict):
        raise ValueError("not a chunk of a chat answer")
    return cast("dict[str, object]", chunk)


def _usage(usage: object) -> Usage | None:
    counts = details(usage)
    if not counts:
        return None
    return Usage(
        input_tokens=_count(counts.get("prompt_tokens")),
        output_tokens=_count(counts.get("completion_tokens")),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
