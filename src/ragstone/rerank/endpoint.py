"""JSON in, JSON out, to one address: what every reranker behind HTTP needs.

Tries again on 408, 425, 429, 5xx, time-outs and lost connections, with back-off and
Retry-After. Nothing of the environment but proxy settings is used, and the key goes
nowhere but to this address.
"""

from __future__ import annotations

import math
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import anyio
from anyio import to_thread

from ragstone.errors import InvalidStage, MissingExtra, ProviderError, ProviderRejected, ProviderUnavailable
from ragstone.wrap import Retry

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

DEFAULT_TIMEOUT = 10.0
"""Seconds for one try, answer included: reranking 20 passages takes far less than one."""

_BUSY = {408, 425, 429}
_EXCERPT = 200


class JsonEndpoint:
    """Posts JSON to `url`. `model` is for error messages only.

    Raises, from `post`:
        ProviderUnavailable: busy, down, unreachable or too slow after every try.
        ProviderRejected: another 4xx. ProviderError: an answer that is not JSON.
        MissingExtra: httpx2 is not installed.
    """

    def __init__(
        self, url: str, *, model: str, api_key: str = "", timeout: float = DEFAULT_TIMEOUT, attempts: int = 3
    ) -> None:
        self._url = url
        self._shown = _shown(url)
        self._model = model
        self._key = api_key
        self._timeout = timeout
        self._retry = Retry(attempts=attempts)
        self._client: AsyncClient | None = None
        self._opening = anyio.Lock()

    @property
    def shown(self) -> str:
        """The address without user name, password and query."""
        return self._shown

    async def post(self, body: object) -> object:
        client = await self._open()
        return await self._retry.call(lambda: self._once(client, body))

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _open(self) -> AsyncClient:
        async with self._opening:
            if self._client is None:
                # Loading the certificates reads the disk.
                self._client = await to_thread.run_sync(self._connected)
            return self._client

    def _connected(self) -> AsyncClient:
        try:
            from httpx2 import AsyncClient
        except ImportError:
            raise MissingExtra("core.missing_extra", feature="a reranker", extra="rerank") from None
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        return AsyncClient(headers=headers, timeout=self._timeout)

    async def _once(self, client: AsyncClient, body: object) -> object:
        from httpx2 import HTTPError, TimeoutException

        try:
            # The client's own limit is for each read; an answer that drips would never meet it.
            with anyio.fail_after(self._timeout):
                response = await client.post(self._url, json=body)
        except (TimeoutError, TimeoutException):
            raise self._unavailable(f"no answer within {self._timeout:g} s.") from None
        except HTTPError:
            raise self._unavailable("no connection, or it was cut.") from None
        if response.status_code >= 300:
            raise self._refused(response)
        try:
            return cast("object", response.json())
        except (ValueError, RecursionError):  # brackets without end are no answer either
            raise ProviderError("rerank.wrong_answer", name=self._shown, reason="it is not JSON") from None

    def _refused(self, response: Response) -> ProviderError:
        status, reason = response.status_code, self._excerpt(response.text)
        if status in _BUSY or status >= 500:
            return self._unavailable(
                f"HTTP {status}: {reason}", retry_after=retry_after(response.headers.get("retry-after"))
            )
        key = "rerank.key" if status in (401, 403) else "rerank.rejected"
        return ProviderRejected(key, url=self._shown, model=self._model, status=status, reason=reason)

    def _unavailable(self, reason: str, **more: object) -> ProviderUnavailable:
        return ProviderUnavailable("rerank.unavailable", url=self._shown, reason=reason, **more)

    def _excerpt(self, text: str) -> str:
        hidden = text.replace(self._key, "***") if self._key else text
        return " ".join(hidden.split())[:_EXCERPT]


def retry_after(header: str | None) -> float | None:
    """Seconds that a Retry-After header asks for, as a number or a date; None when it cannot be read."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def joined(base_url: str, path: str, *, ends: tuple[str, ...] = ()) -> str:
    """`base_url` with `path` behind it, unless it ends with that or one of `ends` already."""
    url = base_url.strip().rstrip("/")
    return url if url.endswith((path, *ends)) else url + path


def _shown(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise InvalidStage("rerank.address", url="********") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidStage("rerank.address", url=f"{parts.scheme}://{parts.hostname or ''}")
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"
