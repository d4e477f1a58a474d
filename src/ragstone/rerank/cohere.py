"""Rerankers in the shape of Cohere's API, which Jina, vLLM, Xinference and others share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstone.rerank.scoring import fields
from ragstone.rerank.served import ServedReranker


class CohereReranker(ServedReranker):
    """Posts to `base_url` + `/rerank` (such as `https://api.cohere.com/v2`).

    An address that ends in `/rerank` or `/reranks` is taken as it is. Scores are from 0
    to 1 with the models of Cohere and Jina.
    """

    path = "/rerank"
    ends = ("/reranks",)
    most = 100  # Cohere takes up to 10,000, servers of your own fewer.

    def body(self, query: str, texts: list[str]) -> Mapping[str, Any]:
        return {"model": self._model, "query": query, "documents": texts, "top_n": len(texts)}

    def results(self, answer: object) -> object:
        return fields(answer).get("results")
