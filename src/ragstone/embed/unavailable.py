"""Stands in for an embedding model that could not be opened."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.embed.estimate import EstimatedTokenizer
from ragstone.errors import ModelUnavailable, ProviderError
from ragstone.types import Vectors


class UnavailableEmbedder:
    """Implements `protocols.Embedder`: every call raises `reason`.

    A search through it goes on by text and is marked, as if the model had failed later.
    """

    identity = "unavailable"
    dimension = 0
    max_tokens = 0

    def __init__(self, reason: ProviderError | ModelUnavailable) -> None:
        self._reason = reason
        self.tokenizer = EstimatedTokenizer()

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        raise self._reason

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        raise self._reason

    async def aclose(self) -> None:
        """Nothing is open."""
