"""Rerankers of DashScope (Model Studio) in its own shape: gte-rerank-v2, qwen3-vl-rerank.

Its qwen3-rerank speaks the shape of Cohere: `CohereReranker` with an address that ends in
`/compatible-api/v1/reranks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstone.rerank.scoring import fields
from ragstone.rerank.served import ServedReranker


class DashScopeReranker(ServedReranker):
    """Posts to `base_url` (such as `https://dashscope.aliyuncs.com/api/v1`) + the rerank service's path.

    Scores are from 0 to 1.
    """

    path = "/services/rerank/text-rerank/text-rerank"
    most = 50  # Up to 500 are taken, but no more than 30,000 tokens with all of them.

    def body(self, query: str, texts: list[str]) -> Mapping[str, Any]:
        return {
            "model": self._model,
            "input": {"query": query, "documents": texts},
            "parameters": {"top_n": len(texts), "return_documents": False},
        }

    def results(self, answer: object) -> object:
        return fields(fields(answer).get("output")).get("results")
