"""haiku-rag-slim: its client over LanceDB; documents come with their chunks, as after a converter."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from docling_core.types.doc.document import DoclingDocument
from docling_core.types.doc.labels import DocItemLabel
from haiku.rag.client import HaikuRAG
from haiku.rag.client.documents import DocumentImport
from haiku.rag.config import AppConfig
from haiku.rag.embeddings import EmbedderWrapper
from haiku.rag.store.models.chunk import Chunk
from measure import TOP_K, Known, Passage, main

BATCH = 100
MODES: dict[str, Any] = {"hybrid": "hybrid", "vector": "vector", "text": "fts"}


class KnownEmbedder(EmbedderWrapper):
    def __init__(self, known: Known) -> None:
        super().__init__(None, 384)
        self._known = known

    async def embed_query(self, text: str) -> list[float]:
        return self._known.query(text).tolist()

    async def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self._known.document(text).tolist() for text in texts]


class Haiku:
    version = version("haiku-rag-slim")

    def __init__(self, client: HaikuRAG) -> None:
        self._client = client

    async def ingest(self, passages: Sequence[Passage]) -> None:
        for start in range(0, len(passages), BATCH):
            batch = passages[start : start + BATCH]
            await self._client.import_documents(
                [_imported(passage.passage_id, [passage], dict(passage.metadata)) for passage in batch]
            )
        await self._client.vacuum()

    async def ingest_file(self, name: str, passages: Sequence[Passage]) -> None:
        await self._client.import_documents([_imported(name, passages, {})])

    async def search(self, mode: str, question: str, kept: tuple[str, int] | None) -> list[str]:
        # Metadata is JSON text, in which a value ends with a comma or the brace.
        condition = None
        if kept is not None:
            forms = (f"metadata LIKE '%\"{kept[0]}\": {kept[1]}{end}%'" for end in (",", "}"))
            condition = " OR ".join(forms)
        found = await self._client.search(question, TOP_K, MODES[mode], filter=condition)
        return [result.document_uri or "" for result in found]

    async def save(self, folder: Path) -> None:
        pass

    def other_cpu(self) -> float:
        return 0.0

    async def close(self) -> None:
        await self._client.__aexit__(None, None, None)


def _imported(name: str, passages: Sequence[Passage], metadata: dict[str, int]) -> DocumentImport:
    document = DoclingDocument(name=name)
    chunks: list[Chunk] = []
    for passage in passages:
        item = document.add_text(label=DocItemLabel.TEXT, text=passage.text)
        chunks.append(
            Chunk(content=passage.text, metadata={"doc_item_refs": [item.self_ref], "labels": ["text"]})
        )
    return DocumentImport(docling_document=document, chunks=chunks, uri=name, metadata=metadata)


async def make(known: Known, work: Path) -> Haiku:
    config = AppConfig()
    config.embeddings.model.vector_dim = 384
    client = HaikuRAG(work / "haiku.lancedb", config=config, create=True)
    await client.__aenter__()
    embedder = KnownEmbedder(known)
    client.store.embedder = embedder
    client.chunk_repository.embedder = embedder
    return Haiku(client)


if __name__ == "__main__":
    main(make)
