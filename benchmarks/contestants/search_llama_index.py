"""llama-index-core: VectorStoreIndex, BM25Retriever, QueryFusionRetriever by reciprocal rank."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters
from llama_index.retrievers.bm25 import BM25Retriever
from measure import TOP_K, Known, Passage, main


class KnownEmbedding(BaseEmbedding):
    known: Any

    def _get_query_embedding(self, query: str) -> list[float]:
        return self.known.query(query).tolist()

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self.known.document(text).tolist()


class LlamaIndex:
    version = version("llama-index-core")

    def __init__(self, known: Known) -> None:
        self._embed_model = KnownEmbedding(known=known)
        self._index: Any = None
        self._retrievers: dict[str, Any] = {}

    async def ingest(self, passages: Sequence[Passage]) -> None:
        nodes = [
            TextNode(
                id_=passage.passage_id,
                text=passage.text,
                metadata=dict(passage.metadata),
                excluded_embed_metadata_keys=list(passage.metadata),
            )
            for passage in passages
        ]
        self._index = VectorStoreIndex(nodes, embed_model=self._embed_model)
        vector = self._index.as_retriever(similarity_top_k=TOP_K)
        text = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=TOP_K)
        both = QueryFusionRetriever(
            [vector, text],
            llm=MockLLM(),
            mode="reciprocal_rerank",
            similarity_top_k=TOP_K,
            num_queries=1,
        )
        self._retrievers = {"vector": vector, "text": text, "hybrid": both}

    async def search(self, mode: str, question: str, kept: tuple[str, int] | None) -> list[str]:
        retriever = self._retrievers[mode]
        if kept is not None:
            filters = MetadataFilters(filters=[MetadataFilter(key=kept[0], value=kept[1])])
            retriever = self._index.as_retriever(similarity_top_k=TOP_K, filters=filters)
        return [found.node.node_id for found in await retriever.aretrieve(question)]

    async def save(self, folder: Path) -> None:
        self._index.storage_context.persist(str(folder / "storage"))
        self._retrievers["text"].persist(str(folder / "bm25"))

    def other_cpu(self) -> float:
        return 0.0

    async def close(self) -> None:
        pass


async def make(known: Known, work: Path) -> LlamaIndex:
    return LlamaIndex(known)


if __name__ == "__main__":
    main(make)
