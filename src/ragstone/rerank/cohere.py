"""Rerankers in the shape of Cohere's API, which Jina, vLLM, Xinference and others share."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.rerank.endpoint import DEFAULT_TIMEOUT, JsonEndpoint, joined
from ragstone.rerank.scoring import checked_batch_size, clean, fields, in_batches, placed

BATCH_SIZE = 100
"""Texts a request; Cohere takes up to 10,000, servers of your own fewer."""


class CohereReranker:
    """Posts to `base_url` + `/rerank` (such as `https://api.cohere.com/v2`).

    An address that ends in `/rerank` or `/reranks` is taken as it is. Scores are from 0
    to 1 with the models of Cohere and Jina.

    Raises, from `score`: as `JsonEndpoint`, and ProviderError for an answer without scores.
    """

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        api_key: str = "",
        batch_size: int = BATCH_SIZE,
        timeout: float = DEFAULT_TIMEOUT,
        attempts: int = 3,
    ) -> None:
        self._model = model
        self._batch_size = checked_batch_size(batch_size)
        self._endpoint = JsonEndpoint(
            joined(base_url, "/rerank", ends=("/reranks",)),
            model=model,
            api_key=api_key,
            timeout=timeout,
            attempts=attempts,
        )

    @property
    def identity(self) -> str:
        return self._model

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        async def some(batch: list[str]) -> list[float]:
            body = {"model": self._model, "query": clean(query), "documents": batch, "top_n": len(batch)}
            answer = await self._endpoint.post(body)
            return placed(fields(answer).get("results"), len(batch), name=self._endpoint.shown)

        return await in_batches(texts, self._batch_size, some)

    async def aclose(self) -> None:
        await self._endpoint.aclose()
