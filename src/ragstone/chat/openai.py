"""Any server that speaks OpenAI's chat protocol, through the openai SDK.

Hosted (OpenAI, DashScope compatible mode, DeepSeek) or your own (Ollama, vLLM,
llama.cpp). The SDK retries 408, 409, 429, 5xx and cut connections with back-off and
Retry-After; what is left becomes an error of ours, by type and never by text.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio
import anyio.to_thread

from ragstone.address import shown
from ragstone.chat.sse import EventReader, ServerEvent
from ragstone.errors import MissingExtra, ProviderError, ProviderRejected, ProviderUnavailable
from ragstone.types import Delta, Message, Usage

if TYPE_CHECKING:
    from openai import APIError, AsyncAPIResponse, AsyncOpenAI

DEFAULT_TIMEOUT = 60.0
CONNECT_TIMEOUT = 10.0
_REASON_LENGTH = 300
_T = TypeVar("_T")


class OpenAIChatModel:
    """The chat model `model` at `base_url` (with its `/v1`).

    `api_key` may be empty for a server that asks for none. `timeout` is the longest
    silence in seconds, `first_timeout` the longest wait for the first byte with all
    retries (by default three times `timeout`). `options` go into the request as they are
    (`temperature`, `max_tokens`, ...).

    Raises, from `stream` and `complete`:
        ProviderUnavailable: 429, 5xx, time-out, no or a cut connection, an answer that
            ends without a finish reason.
        ProviderRejected: another 4xx, a used-up quota, a filtered answer.
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
    ) -> None:
        self._base_url = base_url
        self._shown_url = shown(base_url)
        self._model = model
        self._key = api_key
        self._timeout = timeout
        self._first_timeout = first_timeout if first_timeout is not None else 3 * timeout
        self._max_retries = max_retries
        self._options = dict(options or {})
        self._client: AsyncOpenAI | None = None
        self._counts_usage = True

    @property
    def identity(self) -> str:
        return self._model

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[Delta]:
        """The answer as it comes; closing the iterator closes the connection."""
        client = await self._open()
        with self._mapped():
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
                    raise ProviderRejected("chat.filtered", model=self._model)
        if not finished:
            raise ProviderUnavailable("chat.cut", url=self._shown_url)

    async def complete(self, messages: Sequence[Message]) -> Delta:
        client = await self._open()
        with self._mapped():
            completion = await self._within(
                client.chat.completions.create(
                    model=self._model, messages=_plain(messages), extra_body=self._options or None
                )
            )
            answer = _details(completion.model_dump() if hasattr(completion, "model_dump") else None)
            choice = self._choice(answer)
            if not choice.get("message"):
                raise ProviderUnavailable("chat.cut" if answer else "chat.garbled", url=self._shown_url)
            if choice.get("finish_reason") == "content_filter":
                raise ProviderRejected("chat.filtered", model=self._model)
            text = _details(choice["message"]).get("content")
            return Delta(text=text if isinstance(text, str) else "", usage=_usage(answer.get("usage")))

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _open(self) -> AsyncOpenAI:
        if self._client is None:
            # Importing the SDK and loading certificates read the disk for half a second.
            client = await anyio.to_thread.run_sync(self._connected)
            self._client = self._client or client
        return self._client

    def _connected(self) -> AsyncOpenAI:
        try:
            from openai import AsyncOpenAI, Omit, Timeout
        except ImportError as error:
            raise MissingExtra("core.missing_extra", feature="OpenAIChatModel", extra="openai") from error
        # Keys and organisations of the environment belong to another server than this one.
        headers: dict[str, Any] = {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()}
        return AsyncOpenAI(
            api_key=self._key or "none",
            base_url=self._base_url,
            timeout=Timeout(self._timeout, connect=min(CONNECT_TIMEOUT, self._timeout)),
            max_retries=self._max_retries,
            default_headers=headers,
        )

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
            )
            try:
                return await request.__aenter__()
            except (BadRequestError, UnprocessableEntityError) as error:
                if not counted or "stream_options" not in _reason(error):
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

    @contextmanager
    def _mapped(self) -> Generator[None]:
        from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError, OpenAIError

        timed_out, disconnected = _transport_errors()
        try:
            yield
        except (APITimeoutError, TimeoutError, timed_out) as error:
            raise ProviderUnavailable("chat.timeout", url=self._shown_url, seconds=self._timeout) from error
        except (APIConnectionError, disconnected) as error:
            raise ProviderUnavailable("chat.connection", url=self._shown_url) from error
        except APIStatusError as error:
            raise self._status_error(error.status_code, _reason(error)) from error
        except APIError as error:
            raise self._stream_error(error.body, error.message) from error
        except (OpenAIError, ValueError) as error:
            # ValueError: an event that is not JSON.
            raise ProviderUnavailable("chat.garbled", url=self._shown_url) from error

    def _read_chunk(self, chunk: Mapping[str, object]) -> tuple[Delta, str]:
        """The text, the usage and the finish reason of a chunk, each of which may be missing."""
        choice = self._choice(chunk)
        text = _details(choice.get("delta")).get("content")
        delta = Delta(text=text if isinstance(text, str) else "", usage=_usage(chunk.get("usage")))
        return delta, str(choice.get("finish_reason") or "")

    def _choice(self, answer: Mapping[str, object]) -> Mapping[str, object]:
        """The first choice, or an empty one. Raises on an error that came under HTTP 200."""
        if choices := cast("list[object]", answer.get("choices") or []):
            return _details(choices[0])
        if error := answer.get("error"):
            raise self._stream_error(error, str(_details(error).get("message") or error))
        if "message" in answer:
            raise self._stream_error(answer, str(answer["message"]))
        return {}

    def _stream_error(self, body: object, message: str) -> ProviderError:
        details = _details(body)
        status = next(
            (int(str(value)) for value in map(details.get, ("status", "code")) if str(value).isdecimal()), 0
        )
        named = " ".join(str(details.get(name, "")) for name in ("type", "code")).lower()
        if not status and ("invalid" in named or "insufficient_quota" in named):
            status = 400
        return self._status_error(status or 503, f"{message} {named}" if "quota" in named else message)

    def _status_error(self, status: int, reason: str) -> ProviderError:
        values: dict[str, object] = {
            "url": self._shown_url,
            "model": self._model,
            "status": status,
            "reason": self._without_key(reason),
        }
        if status in (401, 403):
            return ProviderRejected("chat.key", **values)
        if status == 404:
            return ProviderRejected("chat.not_found", **values)
        if "insufficient_quota" in reason:
            return ProviderRejected("chat.quota", **values)
        if status in (408, 409, 425, 429) or status >= 500:
            return ProviderUnavailable("chat.busy", **values)
        return ProviderRejected("chat.rejected", **values)

    def _without_key(self, text: str) -> str:
        hidden = text.replace(self._key, "***") if self._key else text
        return " ".join(hidden.split())[:_REASON_LENGTH]


def _reason(error: APIError) -> str:
    details = _details(error.body)
    code = details.get("code") or ""
    return f"{details.get('message') or error.message} {code}".strip()


def _details(body: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", body) if isinstance(body, Mapping) else {}


def _plain(messages: Sequence[Message]) -> Any:
    return [{"role": message.role, "content": message.content} for message in messages]


def _chunk(event: ServerEvent) -> Mapping[str, object] | None:
    if event.data.startswith("[DONE]"):
        return None
    chunk = json.loads(event.data)
    if not isinstance(chunk, dict):
        raise ValueError("not a chunk of a chat answer")
    return cast("dict[str, object]", chunk)


def _transport_errors() -> tuple[type[Exception], type[Exception]]:
    """(time-out, any other failure of the connection) of the HTTP library under the SDK."""
    http = cast(Any, import_module("httpx2" if find_spec("httpx2") else "httpx"))
    return http.TimeoutException, http.TransportError


def _usage(usage: object) -> Usage | None:
    counts = _details(usage)
    if not counts:
        return None
    return Usage(
        input_tokens=_count(counts.get("prompt_tokens")),
        output_tokens=_count(counts.get("completion_tokens")),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
