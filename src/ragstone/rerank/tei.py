"""Rerankers served by Hugging Face's text-embeddings-inference."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.rerank.endpoint import DEFAULT_TIMEOUT, JsonEndpoint, joined
from ragstone.rerank.scoring import checked_batch_size, clean, in_batches, placed

BATCH_SIZE = 32
"""Texts a request: the server's default limit."""


class TeiReranker:
    """Posts to `base_url` (such as `http://localhost:8080`) + `/rerank`.

    A server holds one model; `model` only names the scale of the scores. These are from 0
    to 1; texts longer than the model reads are cut by the server.

    Raises, from `score`: as `JsonEndpoint`, and ProviderError for an answer without scores.
    """

    def __init__(
        self,
        *,
        base_url: str,
        model: str = "tei",
        api_key: str = "",
        batch_size: int = BATCH_SIZE,
        timeout: float = DEFAULT_TIMEOUT,
        attempts: int = 3,
    ) -> None:
        self._model = model
        self._batch_size = checked_batch_size(batch_size)
        self._endpoint = JsonEndpoint(
            joined(base_url, "/rerank"), model=model, api_key=api_key, timeout=timeout, attempts=attempts
        )

    @property
    def identity(self) -> str:
        return self._model

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        async def some(batch: list[str]) -> list[float]:
            body = {"query": clean(query), "texts": batch, "raw_scores": False, "truncate": True}
            return placed(await self._endpoint.post(body), len(batch), name=self._endpoint.shown)

        return await in_batches(texts, self._batch_size, some)

    async def aclose(self) -> None:
        await self._endpoint.aclose()
