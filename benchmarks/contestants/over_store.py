"""Ragstone over any store: IngestPipeline and QueryPipeline.search."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from measure import TOP_K, Known, Passage

from ragstone import (
    Blob,
    Chunk,
    CitedContext,
    Document,
    ExtractiveGenerator,
    IngestPipeline,
    Query,
    QueryPipeline,
    Scope,
    StoreRetriever,
    Vectors,
)
from ragstone.filters import Equal
from ragstone.protocols import Store
from ragstone.split import WholeDocument


class KnownEmbedder:
    """`protocols.Embedder` over the known vectors."""

    identity = "known"
    dimension = 384
    max_tokens = 512
    tokenizer = None

    def __init__(self, known: Known, tokens: Mapping[str, Any]) -> None:
        self._known, self._tokens = known, tokens

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        return self._vectors(texts, self._known.document)

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self._vectors(texts, self._known.query)

    def _vectors(self, texts: Sequence[str], vector: Callable[[str], Any]) -> Vectors:
        values = np.stack([vector(text) for text in texts])
        tokens = [self._tokens[text] for text in texts] if self._tokens else ()
        return Vectors(model=self.identity, values=values, token_vectors=tokens)

    async def aclose(self) -> None:
        pass


async def parse(blob: Blob) -> Document:
    return Document(text=blob.data.decode(), uri=blob.uri, metadata=blob.metadata)


def by_form_feed(document: Document) -> list[Chunk]:
    chunks: list[Chunk] = []
    start = 0
    for index, text in enumerate(document.text.split("\f")):
        end = start + len(text)
        chunks.append(Chunk(text=text, document_id=document.document_id, index=index, start=start, end=end))
        start = end + 1
    return chunks


class Ragstone:
    version = version("ragstone")

    def __init__(
        self, known: Known, store: Store, *, tokens: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """`tokens`: the token vectors of every text, where they are to be compared too."""
        self._store = store
        self._embedder: Any = KnownEmbedder(known, tokens)

    async def ingest(self, passages: Sequence[Passage]) -> None:
        pipeline = IngestPipeline(
            parse=parse, split=WholeDocument(), embedder=self._embedder, store=self._store
        )

        async def blobs() -> AsyncIterator[Blob]:
            for passage in passages:
                uri, data = passage.passage_id, passage.text.encode()
                yield Blob(uri=uri, name=uri, data=data, metadata=passage.metadata)

        result = await pipeline.run(blobs())
        assert result.count("ready") == len(passages), result.files[:3]

    async def ingest_file(self, name: str, passages: Sequence[Passage]) -> None:
        pipeline = IngestPipeline(parse=parse, split=by_form_feed, embedder=self._embedder, store=self._store)

        async def blobs() -> AsyncIterator[Blob]:
            data = "\f".join(passage.text for passage in passages).encode()
            yield Blob(uri=name, name=name, data=data)

        result = await pipeline.run(blobs(), base_id="files")
        assert result.chunks == len(passages), result.files

    async def search(self, mode: Any, question: str, kept: tuple[str, int] | None) -> list[str]:
        scope = Scope() if kept is None else Scope(filter=Equal(*kept))
        retriever = StoreRetriever(store=self._store, embedder=self._embedder, mode=mode, top_k=TOP_K)
        pipeline = QueryPipeline(
            retrievers=[retriever], augment=CitedContext(), generate=ExtractiveGenerator(self._embedder)
        )
        result = await pipeline.search(Query(question, scope=scope))
        return [hit.uri for hit in result.hits]

    async def save(self, folder: Path) -> None:
        pass

    def other_cpu(self) -> float:
        return 0.0

    async def close(self) -> None:
        await self._store.aclose()
