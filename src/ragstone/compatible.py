"""Servers that speak OpenAI's protocols: one client, and one reading of what they refuse.

The adapters of chat and embeddings share both; each says in its own words what happened.
The SDK retries 408, 409, 429, 5xx and cut connections with back-off and Retry-After; what
is left is sorted by type and code, never by the text of a message.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from anyio import Lock, to_thread

from ragstone.address import shown
from ragstone.errors import MissingExtra, ProviderError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

CONNECT_TIMEOUT = 10.0
_REASON_LENGTH = 200
_BUSY = frozenset({408, 409, 425, 429})
_FILTERS = frozenset({"content_filter", "content_policy_violation", "data_inspection_failed"})
"""Codes of a text refused for its content: Azure, OpenAI, DashScope."""

Trouble: TypeAlias = Literal[
    "timeout", "connection", "garbled", "key", "not_found", "quota", "filtered", "busy", "rejected"
]


class Refusal(NamedTuple):
    """What went wrong: its kind, the HTTP status (0: none), and the server's words without the key."""

    trouble: Trouble
    status: int = 0
    reason: str = ""


class CompatibleServer:
    """The server at `base_url`; its client is made at first need.

    `api_key` may be empty: then no key is sent, also none of the environment. `timeout` is
    the longest silence in seconds. `direct` goes around the proxies of the environment.
    `feature` is named when the openai package is missing.
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str,
        timeout: float,
        feature: str,
        max_retries: int = 2,
        direct: bool = False,
    ) -> None:
        self.url = shown(base_url)
        """The address as it may be shown."""
        self._base_url = base_url
        self._key = api_key
        self._timeout = timeout
        self._feature = feature
        self._max_retries = max_retries
        self._direct = direct
        self._client: AsyncOpenAI | None = None
        self._opening = Lock()

    async def client(self) -> AsyncOpenAI:
        """Raises MissingExtra where the openai package is not installed."""
        async with self._opening:
            if self._client is None:
                # Importing the SDK and loading certificates read the disk for half a second.
                self._client = await to_thread.run_sync(self._connected)
            return self._client

    @property
    def headers(self) -> dict[str, Any]:
        """To be given with every request: the SDK leaves its key out only where this is said each time."""
        from openai import Omit

        return {} if self._key else {"Authorization": Omit()}

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _connected(self) -> AsyncOpenAI:
        try:
            from openai import AsyncOpenAI, DefaultAsyncHttpxClient, Omit, Timeout
        except ImportError:
            raise MissingExtra("core.missing_extra", feature=self._feature, extra="openai") from None
        # Keys and organisations of the environment belong to another server than this one.
        headers: dict[str, Any] = {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()}
        return AsyncOpenAI(
            api_key=self._key or "none",
            base_url=self._base_url,
            timeout=Timeout(self._timeout, connect=min(CONNECT_TIMEOUT, self._timeout)),
            max_retries=self._max_retries,
            default_headers=headers,
            http_client=DefaultAsyncHttpxClient(trust_env=False) if self._direct else None,
        )

    @contextmanager
    def errors_as(self, ours: Callable[[Refusal], ProviderError]) -> Generator[None]:
        """What the SDK raises inside becomes `ours(refusal)`, not chained: the original may hold the key."""
        from openai import OpenAIError

        timed_out, disconnected = _transport_errors()
        try:
            yield
        except (TimeoutError, timed_out):
            refusal = Refusal("timeout")
        except disconnected:
            refusal = Refusal("connection")
        except (OpenAIError, ValueError, OverflowError, RecursionError) as error:
            refusal = self._refusal(error)
        else:
            return
        raise ours(refusal) from None

    def _refusal(self, error: Exception) -> Refusal:
        from openai import APIConnectionError, APIError, APIResponseValidationError, APIStatusError
        from openai import APITimeoutError as TimedOut

        match error:
            case TimedOut():
                return Refusal("timeout")
            case APIConnectionError():
                return Refusal("connection")
            case APIStatusError():
                return self._of_status(error.status_code, details(error.body), error.message)
            case APIError() if not isinstance(error, APIResponseValidationError):
                return self.said(error.body, error.message)
            case _:
                # Another error of the SDK, or of reading: an answer that is not JSON, nests too
                # deep, or holds a number beyond all sense.
                return Refusal("garbled")

    def said(self, body: object, message: str = "") -> Refusal:
        """What an error object in an answer means that came under HTTP 200."""
        found = details(body)
        status = next(
            (int(str(value)) for value in map(found.get, ("status", "code")) if _is_status(str(value))), 0
        )
        named = " ".join(str(found.get(name, "")) for name in ("type", "code")).lower()
        if not status and ("invalid" in named or "insufficient_quota" in named):
            status = 400
        return self._of_status(status or 503, found, message or str(body))

    def _of_status(self, status: int, found: Mapping[str, object], message: str) -> Refusal:
        codes = {str(found.get(name) or "").lower() for name in ("code", "type")}
        words = str(found.get("message") or message)
        reason = self._without_key(f"{words} {found.get('code') or ''}")
        return Refusal(_trouble(status, codes), status, reason)

    def _without_key(self, text: str) -> str:
        hidden = text.replace(self._key, "***") if self._key else text
        hidden = " ".join(hidden.split())
        return hidden if len(hidden) <= _REASON_LENGTH else hidden[: _REASON_LENGTH - 1] + "…"


def details(body: object) -> Mapping[str, object]:
    """A JSON object; an empty one in place of whatever else."""
    return cast("Mapping[str, object]", body) if isinstance(body, Mapping) else {}


def _trouble(status: int, codes: set[str]) -> Trouble:
    if codes & _FILTERS:
        return "filtered"
    if status in (401, 403):
        return "key"
    if status == 404:
        return "not_found"
    if "insufficient_quota" in codes:
        return "quota"
    return "busy" if status in _BUSY or status >= 500 else "rejected"


def _transport_errors() -> tuple[type[Exception], type[Exception]]:
    """(time-out, any other failure of the connection) of the HTTP library under the SDK."""
    http = cast(Any, import_module("httpx2" if find_spec("httpx2") else "httpx"))
    return http.TimeoutException, http.TransportError


def _is_status(text: str) -> bool:
    # Other codes are names, or numbers of any length.
    return len(text) == 3 and text.isdecimal()
