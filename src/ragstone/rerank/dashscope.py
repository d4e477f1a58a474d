"""Rerankers of DashScope (Model Studio) in its own shape: gte-rerank-v2, qwen3-vl-rerank.

Its qwen3-rerank speaks the shape of Cohere: `CohereReranker` with an address that ends in
`/compatible-api/v1/reranks`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.rerank.endpoint import DEFAULT_TIMEOUT, JsonEndpoint, joined
from ragstone.rerank.scoring import checked_batch_size, clean, fields, in_batches, placed

BATCH_SIZE = 50
"""Texts a request: up to 500 are taken, but no more than 30,000 tokens with all of them."""

_PATH = "/services/rerank/text-rerank/text-rerank"


class DashScopeReranker:
    """Posts to `base_url` (such as `https://dashscope.aliyuncs.com/api/v1`) + the rerank service's path.

    Scores are from 0 to 1.

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
            joined(base_url, _PATH), model=model, api_key=api_key, timeout=timeout, attempts=attempts
        )

    @property
    def identity(self) -> str:
        return self._model

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        async def some(batch: list[str]) -> list[float]:
            answer = await self._endpoint.post(
                {
                    "model": self._model,
                    "input": {"query": clean(query), "documents": batch},
                    "parameters": {"top_n": len(batch), "return_documents": False},
                }
            )
            output = fields(fields(answer).get("output"))
            return placed(output.get("results"), len(batch), name=self._endpoint.shown)

        return await in_batches(texts, self._batch_size, some)

    async def aclose(self) -> None:
        await self._endpoint.aclose()
