"""Rerankers served by Hugging Face's text-embeddings-inference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstone.rerank.served import ServedReranker


class TeiReranker(ServedReranker):
    """Posts to `base_url` (such as `http://localhost:8080`) + `/rerank`.

    A server holds one model; `model` only names the scale of the scores. These are from 0
    to 1; texts longer than the model reads are cut by the server.
    """

    path = "/rerank"
    most = 32  # The server's default limit.

    def __init__(self, *, base_url: str, model: str = "tei", **options: Any) -> None:
        super().__init__(base_url=base_url, model=model, **options)

    def body(self, query: str, texts: list[str]) -> Mapping[str, Any]:
        return {"query": query, "texts": texts, "raw_scores": False, "truncate": True}

    def results(self, answer: object) -> object:
        return answer
