"""Small documents with vectors of three dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ragstone.fuse import concatenate
from ragstone.metadata import MetadataValue
from ragstone.protocols import Store
from ragstone.types import Chunk, Document, Hit, Scope, Vectors

MODEL = "contract/3"
EVERYTHING = Scope()
HALF = 2e-3
"""How far a cosine may be off in a store that keeps half precision."""

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)


def vectors(*rows: Sequence[float], model: str = MODEL) -> Vectors:
    return Vectors(model=model, values=np.array(rows, dtype=np.float32).reshape(len(rows), -1))


def passages(
    uri: str,
    *texts: str,
    base_id: str = "one",
    revision: str = "",
    metadata: Mapping[str, MetadataValue] | None = None,
    context: str = "",
) -> tuple[Document, list[Chunk]]:
    """A document of these texts, a line and a chunk each."""
    document = Document(
        text="\n".join(texts),
        uri=uri,
        title=f"Title of {uri}",
        base_id=base_id,
        revision=revision,
        metadata=metadata or {},
    )
    chunks: list[Chunk] = []
    start = 0
    for index, text in enumerate(texts):
        chunks.append(
            Chunk(
                text=text,
                document_id=document.document_id,
                index=index,
                start=start,
                end=start + len(text),
                context=context,
                metadata=document.metadata,
            )
        )
        start += len(text) + 1
    return document, chunks


def texts(hits: Sequence[Hit]) -> list[str]:
    return [hit.chunk.text for hit in hits]


async def halves(
    store: Store, text: str, question: Vectors, *, scope: Scope = EVERYTHING, top_k: int
) -> tuple[list[Hit], list[Hit]]:
    """Both rankings of one hybrid search, as (vector, text), with their passages."""
    rankings: list[Sequence[Hit]] = []

    def fuse(found: Sequence[Sequence[Hit]]) -> list[Hit]:
        rankings[:] = found
        return concatenate(found)

    hits = await store.search_hybrid(
        text, question, scope=scope, top_k=min(2 * top_k, 1_000), fuse=fuse, candidates=top_k
    )
    whole = {hit.chunk.chunk_id: hit for hit in hits}
    none: Sequence[Hit] = ()
    nearest, matching = rankings or (none, none)
    assert not any(hit.chunk.text for hit in (*nearest, *matching)), "passages are read of the best alone"
    return (
        [whole[hit.chunk.chunk_id].with_scores(hit.scores) for hit in nearest],
        [whole[hit.chunk.chunk_id].with_scores(hit.scores) for hit in matching],
    )


def one_passage(
    text: str, *, start: int = 0, end: int | None = None, **fields: Any
) -> tuple[Document, list[Chunk]]:
    """A document with one chunk, from `start` to `end` of its text."""
    document = Document(text=text, base_id="one", **fields)
    end = len(text) if end is None else end
    page = document.layout.page(start)
    chunk = Chunk(
        text=text[start:end], document_id=document.document_id, index=0, start=start, end=end, page=page
    )
    return document, [chunk]


async def put(
    store: Store,
    uri: str,
    *lines: str,
    rows: Sequence[Sequence[float]] | None = None,
    base_id: str = "one",
    revision: str = "",
    metadata: Mapping[str, MetadataValue] | None = None,
    context: str = "",
    model: str = MODEL,
) -> Document:
    document, chunks = passages(
        uri, *lines, base_id=base_id, revision=revision, metadata=metadata, context=context
    )
    rows = rows if rows is not None else [X] * len(lines)
    assert await store.replace(document, chunks, vectors(*rows, model=model))
    return document
