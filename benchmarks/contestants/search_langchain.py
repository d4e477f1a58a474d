"""langchain: InMemoryVectorStore, BM25Retriever, EnsembleRetriever with equal weights."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from langchain_classic.retrievers import EnsembleRetriever
from langchain_community.retrievers import BM25Retriever
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from measure import TOP_K, Known, Passage, main


class KnownEmbeddings(Embeddings):
    def __init__(self, known: Known) -> None:
        self._known = known

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self._known.document(text).tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self._known.query(text).tolist()


class LangChain:
    version = version("langchain")

    def __init__(self, known: Known) -> None:
        self._store = InMemoryVectorStore(KnownEmbeddings(known))
        self._retrievers: dict[str, Any] = {}

    async def ingest(self, passages: Sequence[Passage]) -> None:
        documents = [
            Document(id=passage.passage_id, page_content=passage.text, metadata=dict(passage.metadata))
            for passage in passages
        ]
        self._store.add_documents(documents)
        vector = self._store.as_retriever(search_kwargs={"k": TOP_K})
        text = BM25Retriever.from_documents(documents, k=TOP_K)
        both = EnsembleRetriever(retrievers=[text, vector], weights=[0.5, 0.5])
        self._retrievers = {"vector": vector, "text": text, "hybrid": both}

    async def search(self, mode: str, question: str, kept: tuple[str, int] | None) -> list[str]:
        retriever = self._retrievers[mode]
        if kept is not None:
            key, value = kept
            keeps = {"k": TOP_K, "filter": lambda document: document.metadata[key] == value}
            retriever = self._store.as_retriever(search_kwargs=keeps)
        return [document.id for document in retriever.invoke(question)[:TOP_K]]

    async def save(self, folder: Path) -> None:
        self._store.dump(str(folder / "store.json"))

    def other_cpu(self) -> float:
        return 0.0

    async def close(self) -> None:
        pass


async def make(known: Known, work: Path) -> LangChain:
    return LangChain(known)


if __name__ == "__main__":
    main(make)
