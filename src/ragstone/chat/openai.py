"""Any server that speaks OpenAI's chat protocol, through the openai SDK.

Hosted (OpenAI, DashScope compatible mode, DeepSeek) or your own (Ollama, vLLM,
llama.cpp). Retries and errors: see `compatible`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio

from ragstone.chat.sse import EventReader, ServerEvent
from ragstone.compatible import CompatibleServer, Refusal, Trouble, details
from ragstone.errors import (
    ContentRefused,
    ProviderError,
    ProviderRejected,
    ProviderTimeout,
    ProviderUnavailable,
)
from ragstone.types import Delta, Message, Usage

if TYPE_CHECKING:
    from openai import AsyncAPIResponse, AsyncOpenAI

DEFAULT_TIMEOUT = 60.0
TOTAL_TIMEOUT = 300.0
_T = TypeVar("_T")
_ERRORS: Mapping[Trouble, tuple[type[ProviderError], str]] = {
    "timeout": (ProviderTimeout, "chat.timeout"),
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

    `api_key` may be empty for a server that asks for none. Times are in seconds:
    `first_timeout` is the longest wait for the first byte of an answer, all tries and the
    pauses between them counted (by default `timeout`); `timeout` is the longest silence
    while bytes come, `total_timeout` the longest answer. `options` go into the request as they are
    (`temperature`, `max_tokens`, ...). `direct` goes around the proxies of the environment.

    Raises, from `stream` and `complete`:
        ProviderTimeout: one of the times is over.
        ProviderUnavailable: 429, 5xx, no or a cut connection, an answer that ends without a
            finish reason.
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
        total_timeout: float = TOTAL_TIMEOUT,
        max_retries: int = 2,
        options: Mapping[str, object] | None = None,
        direct: bool = False,
    ) -> None:
        self._server = CompatibleServer(
            base_url=base_url,
            api_key=api_key,
            timeout=max(timeout, first_timeout or 0.0),
            max_retries=max_retries,
            direct=direct,
            feature="OpenAIChatModel",
        )
        self._model = model
        self._timeout = timeout
        self._first_timeout = timeout if first_timeout is None else first_timeout
        self._total_timeout = total_timeout
        self._options = dict(options or {})
        self._counts_usage = True

    @property
    def identity(self) -> str:
        return self._model

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[Delta]:
        """The answer as it comes; closing the iterator closes the connection."""
        client = await self._server.client()
        with self._server.errors_as(self._error):
            began = anyio.current_time()
            response = await _until(began + self._first_timeout, self._start(client, messages))
            try:
                async with aclosing(self._deltas(response, began)) as deltas:
                    async for delta in deltas:
                        yield delta
            finally:
                with anyio.CancelScope(shield=True):
                    await response.close()

    async def _deltas(self, response: AsyncAPIResponse[Any], began: float) -> AsyncGenerator[Delta, None]:
        """The deltas of an answer that ends: with a finish reason, or with `[DONE]` behind some choice."""
        begun = finished = False
        whole = _WholeCharacters()
        async with aclosing(self._chunks(response, began)) as chunks:
            async for chunk in chunks:
                if chunk is None:
                    finished = finished or begun
                    break
                delta, reason = self._read_chunk(chunk)
                delta = replace(delta, text=whole.feed(delta.text))
                begun = begun or bool(chunk.get("choices"))
                finished = finished or bool(reason)
                if delta.text or delta.usage or delta.cut:
                    yield delta
                if reason == "content_filter":
                    raise ContentRefused("chat.filtered", model=self._model)
        if not finished:
            raise ProviderUnavailable("chat.cut", url=self._server.url)

    async def complete(self, messages: Sequence[Message]) -> Delta:
        client = await self._server.client()
        with self._server.errors_as(self._error):
            completion = await _until(
                anyio.current_time() + self._first_timeout,
                client.chat.completions.create(
                    model=self._model,
                    messages=_plain(messages),
                    extra_body=self._options or None,
                    extra_headers=self._server.headers,
                ),
            )
            answer = details(completion.model_dump() if hasattr(completion, "model_dump") else None)
            choice = self._choice(answer)
            if not choice.get("message"):
                raise ProviderUnavailable("chat.cut" if answer else "chat.garbled", url=self._server.url)
            if choice.get("finish_reason") == "content_filter":
                raise ContentRefused("chat.filtered", model=self._model)
            text, cut = (
                _text(details(choice["message"]).get("content")),
                choice.get("finish_reason") == "length",
            )
            return Delta(text=text, usage=_usage(answer.get("usage")), cut=cut)

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
        self, response: AsyncAPIResponse[Any], began: float
    ) -> AsyncGenerator[Mapping[str, object] | None, None]:
        """The chunks of the stream, and None for `[DONE]`."""
        reader = EventReader()
        pieces = aiter(response.iter_bytes())
        end = began + self._first_timeout
        while (piece := await _until(end, anext(pieces, None))) is not None:
            end = min(began + self._total_timeout, anyio.current_time() + self._timeout)
            for event in reader.feed(piece):
                if event.data.strip():  # else a heartbeat
                    yield _chunk(event)
        for event in reader.finish():
            if event.data.strip():
                yield _chunk(event)

    def _read_chunk(self, chunk: Mapping[str, object]) -> tuple[Delta, str]:
        """The text, the usage and the finish reason of a chunk, each of which may be missing."""
        choice = self._choice(chunk)
        text, reason = _text(details(choice.get("delta")).get("content")), choice.get("finish_reason")
        delta = Delta(text=text, usage=_usage(chunk.get("usage")), cut=reason == "length")
        return delta, str(reason or "")

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


async def _until(time: float, awaitable: Awaitable[_T]) -> _T:
    """What comes of it by `time` on the clock of the event loop. Raises TimeoutError."""
    with anyio.fail_after(max(0.0, time - anyio.current_time())):
        return await awaitable


class _WholeCharacters:
    """Joins halves of a character (surrogates in JSON) that came in two pieces."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        if not text:
            return ""
        text, self._half = self._half + text, ""
        if "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        if text.isascii():
            return text
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _text(content: object) -> str:
    """Content as text; of a list of parts those of type text, one behind the other."""
    if isinstance(content, list):
        parts = (details(part).get("text") for part in cast("list[object]", content))
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


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
