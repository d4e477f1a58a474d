"""What rerankers behind HTTP share; each protocol adds its address, its request and where the results are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ragstone.rerank.endpoint import DEFAULT_TIMEOUT, JsonEndpoint, joined
from ragstone.rerank.scoring import checked_batch_size, clean, in_batches, placed


class ServedReranker:
    """A reranker that posts to `base_url` + `path`; an address that ends so already is taken as it is.

    `batch_size` texts go into a request; without it as many as the protocol's servers take.

    Raises, from `score`: as `JsonEndpoint`, and ProviderError for an answer without scores.
    """

    path: ClassVar[str]
    ends: ClassVar[tuple[str, ...]] = ()
    most: ClassVar[int]

    def __init__(
        self,
        *,
        base_url: str,
        model: str,
        api_key: str = "",
        batch_size: int | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        attempts: int = 3,
    ) -> None:
        self._model = model
        self._batch_size = checked_batch_size(self.most if batch_size is None else batch_size)
        self._endpoint = JsonEndpoint(
            joined(base_url, self.path, ends=self.ends),
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
            answer = await self._endpoint.post(self.body(clean(query), batch))
            return placed(self.results(answer), len(batch), name=self._endpoint.shown)

        return await in_batches(texts, self._batch_size, some)

    async def aclose(self) -> None:
        await self._endpoint.aclose()

    def body(self, query: str, texts: list[str]) -> Mapping[str, Any]:
        """The request for these texts."""
        raise NotImplementedError

    def results(self, answer: object) -> object:
        """The list of results in an answer."""
        raise NotImplementedError
