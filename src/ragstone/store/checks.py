"""What every store refuses before it writes or searches, so that all refuse the same (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ragstone.errors import CorruptContent, InvalidMetadata, InvalidQuery, InvalidStage, ModelMismatch
from ragstone.filters import checked_filter
from ragstone.metadata import Metadata, checked, storable
from ragstone.trace import degrade
from ragstone.types import Box, Chunk, Document, Scope, Vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_URI_LENGTH = 2_000
MAX_ID_LENGTH = 200
"""Bytes of UTF-8; together what an index entry of PostgreSQL still holds."""
MAX_NEIGHBOURS = 1_000


def checked_chunks(document: Document, chunks: Sequence[Chunk], vectors: Vectors) -> list[Chunk]:
    """The chunks as they may be stored, their metadata checked; everything else is refused.

    Raises:
        InvalidStage: a chunk that is not the document's, whose text is not
            `document.text[start:end]`, whose index or id is there twice, or whose parent
            does not hold it; a box outside the text or without numbers.
        InvalidMetadata: an id or uri that is blank or too long, or metadata of a chunk
            that cannot be stored.
        CorruptContent: text with a NUL character or half a surrogate pair.
        ModelMismatch: another number of vectors than chunks, NaN or infinity in them.
    """
    _check_document(document)
    _check_places(document, chunks)
    check_vectors(vectors, count=len(chunks))
    return [_checked_chunk(document, chunk) for chunk in chunks]


def _check_document(document: Document) -> None:
    for name, value, limit in (
        ("base_id", document.base_id, MAX_ID_LENGTH),
        ("document_id", document.document_id, MAX_ID_LENGTH),
        ("uri", document.uri, MAX_URI_LENGTH),
    ):
        _check_identifier(name, value, limit)
    headings = [part for span in document.headings for part in span.path]
    texts = (document.text, document.title, document.media_type, document.revision)
    remarks = [str(value) for remark in document.warnings for value in remark.values.values()]
    _check_texts((*texts, *headings, *remarks), document)
    _check_metadata(document.metadata)
    length = len(document.text)
    for box in document.boxes:
        if not 0 <= box.start <= box.end <= length or not _finite(box):
            raise InvalidStage("store.box", page=box.page, uri=document.uri)


def _finite(box: Box) -> bool:
    return all(map(math.isfinite, (box.x0, box.y0, box.x1, box.y1)))


def _check_places(document: Document, chunks: Sequence[Chunk]) -> None:
    length = len(document.text)
    indexes: set[int] = set()
    chunk_ids: set[str] = set()
    for chunk in chunks:
        if chunk.document_id != document.document_id:
            raise InvalidStage(
                "store.foreign_chunk",
                index=chunk.index,
                document_id=document.document_id,
                other=chunk.document_id,
            )
        if chunk.index in indexes or not 0 <= chunk.index < 2**31:
            raise InvalidStage("store.chunk_index", index=chunk.index, uri=document.uri)
        if chunk.chunk_id in chunk_ids:
            raise InvalidStage("store.chunk_twice", chunk_id=chunk.chunk_id, uri=document.uri)
        if not 0 <= chunk.start <= chunk.end or document.text[chunk.start : chunk.end] != chunk.text:
            raise InvalidStage("core.chunk_offsets", index=chunk.index, start=chunk.start, end=chunk.end)
        if chunk.parent and not 0 <= chunk.parent[0] <= chunk.start <= chunk.end <= chunk.parent[1] <= length:
            raise InvalidStage("store.parent", index=chunk.index, uri=document.uri)
        indexes.add(chunk.index)
        chunk_ids.add(chunk.chunk_id)


def _checked_chunk(document: Document, chunk: Chunk) -> Chunk:
    _check_identifier("chunk_id", chunk.chunk_id, MAX_ID_LENGTH)
    _check_texts((chunk.context, *chunk.headings), document)
    metadata = checked(chunk.metadata)
    _check_metadata(metadata)
    return replace(chunk, metadata=metadata)


def _check_identifier(name: str, value: str, limit: int) -> None:
    if not value.strip() or not storable(value) or len(value.encode()) > limit:
        raise InvalidMetadata("store.identifier", name=name, value=repr(value)[:80], limit=limit)


def _check_metadata(metadata: Metadata) -> None:
    for key, value in metadata.items():
        items = value if isinstance(value, tuple) else (value,)
        if not storable(key) or not all(storable(item) for item in items if isinstance(item, str)):
            raise InvalidMetadata("store.metadata_text", name=repr(key))


def _check_texts(texts: Iterable[str], document: Document) -> None:
    if not all(storable(text) for text in texts):
        raise CorruptContent("store.text", uri=document.uri)


def check_vectors(vectors: Vectors, *, count: int) -> None:
    """Refuse vectors that are not `count` finite rows."""
    values = vectors.values
    if values.ndim != 2 or values.shape[0] != count or values.shape[1] < 1:
        raise ModelMismatch(
            "store.vector_count", count=count, shape=str(tuple(values.shape)), model=vectors.model
        )
    if not bool(np.isfinite(values).all()):
        raise ModelMismatch("store.vector_nan", model=vectors.model)


def query_vector(vectors: Vectors) -> NDArray[np.float32]:
    """The one unit vector in `vectors`; all zeros where it has no direction."""
    check_vectors(vectors, count=1)
    return normalised(vectors.values)[0]


def normalised(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows of length 1, zero rows left as they are.

    Each row is measured in units of its largest value, for the squares of large values
    overflow and those of small ones vanish. Rows that are
    unit vectors but for half-precision rounding stay untouched, so that an embedding
    read back and stored again is the same embedding.
    """
    wide = np.asarray(values, dtype=np.float64)
    largest = np.abs(wide).max(axis=1, keepdims=True)
    norms = largest * np.linalg.norm(wide / np.where(largest == 0.0, 1.0, largest), axis=1, keepdims=True)
    keep = (norms == 0.0) | (np.abs(norms - 1.0) < 2e-3)
    return (wide / np.where(keep, 1.0, norms)).astype(np.float32)


def checked_scope(scope: Scope) -> Scope:
    """`scope` without bases that no store can hold, its filter within the limits."""
    if scope.filter is not None:
        checked_filter(scope.filter)
    if scope.bases is None:
        return scope
    return Scope(bases=tuple(storable_ids(scope.bases)), filter=scope.filter)


def storable_ids(ids: Iterable[str]) -> list[str]:
    """The ids that may be in a store at all; the others are simply not there."""
    return [item for item in ids if storable(item)]


def checked_reach(n: object) -> int:
    """`n`, how many neighbours to a side, if it is a whole number from 0 to 1,000; else `InvalidQuery`."""
    if isinstance(n, bool) or not isinstance(n, int) or not 0 <= n <= MAX_NEIGHBOURS:
        raise InvalidQuery("store.neighbours", value=n, limit=MAX_NEIGHBOURS)
    return n


def check_models(held: Mapping[str, str], model: str, scope: Scope) -> None:
    """Refuse to search bases with vectors of another model than the question's.

    `held` maps base -> the model of its vectors, for bases that have any. A base that
    the scope names must be of `model`. Where the scope is every base, those of another
    model are passed over and the search is marked `other_model`, unless there is none of `model`.

    Raises:
        ModelMismatch: names a base and both models.
    """
    named = held if scope.bases is None else {base: held[base] for base in scope.bases if base in held}
    strangers = sorted(base for base, other in named.items() if other != model)
    if not strangers:
        return
    if scope.bases is not None or len(strangers) == len(named):
        raise ModelMismatch("store.model", base=strangers[0], stored=named[strangers[0]], model=model)
    degrade("other_model")
