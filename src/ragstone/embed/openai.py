"""Embeddings from any server that speaks the OpenAI embeddings protocol.

OpenAI, DashScope in compatible mode, Ollama, vLLM, llama.cpp, TEI and others. Requests
ask for plain numbers (`encoding_format: float`), since few servers know base64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from ragstone.compatible import CompatibleServer, Refusal
from ragstone.embed.estimate import EstimatedTokenizer
from ragstone.errors import (
    ContentRefused,
    InvalidStage,
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    TextTooLong,
)
from ragstone.metadata import checked_texts
from ragstone.types import Vectors, digest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_BATCH_SIZE = 10
"""Texts a request: the lowest limit known, DashScope's."""

DEFAULT_MAX_TOKENS = 512
"""What the smallest models in common use read."""

DEFAULT_TIMEOUT = 30.0
"""Seconds to connect, and to wait for an answer, at each try."""


class OpenAIEmbedder:
    """Implements `protocols.Embedder`. Open one with `await OpenAIEmbedder.open(...)`.

    Tokens are estimated (see `estimate`), on the high side.
    """

    def __init__(
        self,
        server: CompatibleServer,
        *,
        model: str,
        batch_size: int,
        query_prefix: str,
        document_prefix: str,
        max_tokens: int,
    ) -> None:
        self._server = server
        self._model = model
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidStage("embed.batch_size", value=batch_size)
        self._batch_size = batch_size
        self._prefixes = (query_prefix, document_prefix)
        self._tokenizer = EstimatedTokenizer()
        self._query_room = max_tokens - self._tokenizer.count(query_prefix)
        self._max_tokens = max_tokens - self._tokenizer.count(document_prefix)
        self._dimension = 0

    @classmethod
    async def open(
        cls,
        *,
        base_url: str,
        model: str,
        api_key: str = "",
        batch_size: int = DEFAULT_BATCH_SIZE,
        query_prefix: str = "",
        document_prefix: str = "",
        max_tokens: int = DEFAULT_MAX_TOKENS,
        timeout: float = DEFAULT_TIMEOUT,  # noqa: ASYNC109 (of each try, kept by the client)
        dimension: int | None = None,
    ) -> OpenAIEmbedder:
        """Connects to `base_url` (such as `http://localhost:11434/v1`).

        Without `dimension`, one word is embedded to find it. The prefixes are put in
        front of the texts as they are, with no space added. No other key than `api_key`
        is ever sent.

        Raises:
            MissingExtra: the openai package is not installed.
            ProviderRejected, ProviderUnavailable, ProviderError: see `embed_documents`.
        """
        server = CompatibleServer(
            base_url=base_url, api_key=api_key, timeout=timeout, feature="OpenAIEmbedder"
        )
        await server.client()
        embedder = cls(
            server,
            model=model,
            batch_size=batch_size,
            query_prefix=query_prefix,
            document_prefix=document_prefix,
            max_tokens=max_tokens,
        )
        try:
            embedder._dimension = dimension or (await embedder._request(["dimension"]))[0].shape[1]
        except BaseException:
            await embedder.aclose()
            raise
        return embedder

    @property
    def identity(self) -> str:
        """The model's name and dimension, with a mark of the prefixes; the address is no part of it."""
        mark = f"/{digest(*self._prefixes, size=4)}" if any(self._prefixes) else ""
        return f"openai/{self._model}/{self._dimension}{mark}"

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def max_tokens(self) -> int:
        return self._max_tokens

    @property
    def tokenizer(self) -> EstimatedTokenizer:
        return self._tokenizer

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        checked_texts(texts)
        return await self._embed([self._cut(_clean(text)) for text in texts], self._prefixes[0])

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Passages to vectors, `batch_size` a request.

        Raises:
            TextTooLong: a text is beyond `max_tokens`; nothing was sent.
            ProviderUnavailable: 429, 5xx, time-out or no connection, after two more tries.
            ContentRefused: the provider's filter refuses a text. ProviderRejected: another 4xx.
            ProviderError: an answer with missing, doubled, uneven or non-finite vectors.
        """
        checked_texts(texts)
        for index, text in enumerate(texts):
            tokens = self._tokenizer.count(text)
            if tokens > self._max_tokens:
                raise TextTooLong("embed.text_too_long", index=index, tokens=tokens, limit=self._max_tokens)
        return await self._embed([_clean(text) for text in texts], self._prefixes[1])

    async def aclose(self) -> None:
        await self._server.aclose()

    def _cut(self, text: str) -> str:
        offsets = self._tokenizer.offsets(text)
        return text[: offsets[self._query_room][0]] if len(offsets) > self._query_room else text

    async def _embed(self, texts: Sequence[str], prefix: str) -> Vectors:
        import numpy as np

        values = np.zeros((len(texts), self._dimension), dtype=np.float32)
        rows = [row for row, text in enumerate(texts) if text.strip()]
        tokens = 0
        for start in range(0, len(rows), self._batch_size):
            some = rows[start : start + self._batch_size]
            values[some], read = await self._request([prefix + texts[row] for row in some])
            tokens += read
        return Vectors(model=self.identity, values=values, tokens=tokens)

    async def _request(self, texts: list[str]) -> tuple[NDArray[np.float32], int]:
        client = await self._server.client()
        with self._server.errors_as(self._error):
            answer: Any = await client.embeddings.create(
                input=texts,
                model=self._model,
                encoding_format="float",
                extra_headers=self._server.headers,
            )
        vectors = self._vectors(answer, len(texts))
        tokens = getattr(getattr(answer, "usage", None), "prompt_tokens", None)
        return vectors, tokens if isinstance(tokens, int) else 0

    def _vectors(self, answer: Any, expected: int) -> NDArray[np.float32]:
        """The answer's vectors in the order of the texts, L2-normalised."""
        import numpy as np

        items: Any = getattr(answer, "data", None)
        if not isinstance(items, list):
            raise self._unusable("no list of vectors")
        ordered = self._ordered(cast("list[Any]", items), expected)
        values = self._matrix([getattr(item, "embedding", None) for item in ordered])
        dimension = int(values.shape[-1])
        if self._dimension and dimension != self._dimension:
            raise ProviderError(
                "embed.dimension_changed",
                url=self._server.url,
                model=self._model,
                got=dimension,
                expected=self._dimension,
            )
        with np.errstate(over="ignore"):
            norms = np.linalg.norm(values, axis=1, keepdims=True)
        if not np.isfinite(norms).all():
            raise self._unusable("a number that is too large")
        return (values / np.where(norms == 0, 1.0, norms)).astype(np.float32)

    def _matrix(self, vectors: list[Any]) -> NDArray[np.float64]:
        import numpy as np

        lengths = sorted(
            {len(cast("list[Any]", vector)) if isinstance(vector, list) else 0 for vector in vectors}
        )
        if 0 in lengths:
            raise self._unusable("a vector is not a list of numbers")
        if len(lengths) > 1:
            raise self._unusable(f"vectors differ in length ({', '.join(map(str, lengths))})")
        try:
            values = np.array(vectors, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise self._unusable("a vector holds what is no number") from None
        if not np.isfinite(values).all():
            raise self._unusable("a number that is not finite")
        return values

    def _ordered(self, items: list[Any], expected: int) -> list[Any]:
        """By `index`; as they came where the server gives none."""
        if len(items) != expected:
            raise self._unusable(f"{len(items)} of {expected} vectors")
        indices = [getattr(item, "index", None) for item in items]
        if all(index is None for index in indices):
            return items
        by_index = {index: item for index, item in zip(indices, items, strict=True) if isinstance(index, int)}
        if set(by_index) != set(range(expected)):
            raise self._unusable(f"index {indices} for {expected} texts")
        return [by_index[index] for index in range(expected)]

    def _unusable(self, reason: str) -> ProviderError:
        return ProviderError("embed.wrong_answer", url=self._server.url, model=self._model, reason=reason)

    def _error(self, refusal: Refusal) -> ProviderError:
        """What went wrong, in our words."""
        url, status = self._server.url, refusal.status
        match refusal.trouble:
            case "timeout":
                return ProviderUnavailable("embed.unavailable", url=url, reason="time-out")
            case "connection":
                return ProviderUnavailable("embed.unavailable", url=url, reason="no connection")
            case "busy":
                return ProviderUnavailable("embed.unavailable", url=url, reason=f"HTTP {status}")
            case "garbled":
                return self._unusable("not JSON, or no embeddings")
            case "filtered":
                return ContentRefused("embed.filtered", url=url, model=self._model, reason=refusal.reason)
            case _:
                return ProviderRejected(
                    "embed.rejected", url=url, model=self._model, status=status, reason=refusal.reason
                )


def _clean(text: str) -> str:
    """Without what JSON or the servers' decoders refuse: NUL and lone surrogates."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
