"""haystack-ai: InMemoryDocumentStore, BM25 and embedding retrievers, DocumentJoiner by reciprocal rank."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from haystack import Document, Pipeline, component
from haystack.components.joiners import DocumentJoiner
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore
from measure import TOP_K, Known, Passage, main


@component
class TextEmbedder:
    def __init__(self, known: Known) -> None:
        self._known = known

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        return {"embedding": self._known.query(text).tolist()}


class Haystack:
    version = version("haystack-ai")

    def __init__(self, known: Known) -> None:
        self._known = known
        self._store = InMemoryDocumentStore()
        self._pipelines = {mode: self._pipeline(mode) for mode in ("hybrid", "vector", "text")}

    def _pipeline(self, mode: str) -> Pipeline:
        pipeline = Pipeline()
        if mode != "text":
            pipeline.add_component("embedder", TextEmbedder(self._known))
            pipeline.add_component("vector", InMemoryEmbeddingRetriever(self._store, top_k=TOP_K))
            pipeline.connect("embedder.embedding", "vector.query_embedding")
        if mode != "vector":
            pipeline.add_component("text", InMemoryBM25Retriever(self._store, top_k=TOP_K))
        if mode == "hybrid":
            pipeline.add_component("hybrid", DocumentJoiner("reciprocal_rank_fusion", top_k=TOP_K))
            pipeline.connect("vector", "hybrid")
            pipeline.connect("text", "hybrid")
        return pipeline

    async def ingest(self, passages: Sequence[Passage]) -> None:
        self._store.write_documents(
            [
                Document(
                    id=passage.passage_id,
                    content=passage.text,
                    meta=dict(passage.metadata),
                    embedding=self._known.document(passage.text).tolist(),
                )
                for passage in passages
            ]
        )

    async def search(self, mode: str, question: str, kept: tuple[str, int] | None) -> list[str]:
        data: dict[str, Any] = {}
        if mode != "text":
            data["embedder"] = {"text": question}
        if mode != "vector":
            data["text"] = {"query": question}
        if kept is not None:
            condition = {"field": f"meta.{kept[0]}", "operator": "==", "value": kept[1]}
            data["vector"] = {"filters": condition}
        found = self._pipelines[mode].run(data)
        return [document.id for document in found[mode]["documents"]]

    async def save(self, folder: Path) -> None:
        self._store.save_to_disk(str(folder / "store.json"))

    def other_cpu(self) -> float:
        return 0.0

    async def close(self) -> None:
        self._store.shutdown()


async def make(known: Known, work: Path) -> Haystack:
    return Haystack(known)


if __name__ == "__main__":
    main(make)
