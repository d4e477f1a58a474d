"""Values as PostgreSQL stores them, and back (pure).

Metadata is JSONB. Two things JSON does not tell apart are kept apart:

- A datetime is `{"$datetime": "2024-05-01T12:00:00.000000Z"}`: UTC, always six digits
  of microseconds, so that the text sorts as the time does. No other value is an object.
- A float always has a decimal point or stays below one, an integer never has one: JSONB
  keeps `1.0` as it is written. Whole floats are written in full, so that they compare
  with integers exactly as in Python.
"""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from ragstone.metadata import MetadataValue, Scalar
from ragstone.place import HeadingSpan, Layout, PageSpan, RowSpan
from ragstone.types import Box, Chunk, Document, Remark

if TYPE_CHECKING:
    from numpy.typing import NDArray

Row: TypeAlias = tuple[bytes | None, ...]
"""One row of a binary COPY: a field each, None for NULL."""

# Limits of the type tsvector: positions a lexeme, the highest position, bytes in all.
_MAX_POSITIONS = 255
_MAX_POSITION = 16_383
_MAX_TSVECTOR = 900_000
_ENTRY = 5


def json_metadata(metadata: Mapping[str, MetadataValue]) -> str:
    """Checked metadata as JSON text; `read_metadata` is its inverse."""
    items = (f"{_text(key)}: {json_value(value)}" for key, value in metadata.items())
    return "{" + ", ".join(items) + "}"


def json_value(value: MetadataValue) -> str:
    """One value as JSON text. Raises ValueError for NaN and infinity."""
    if isinstance(value, tuple):
        return "[" + ", ".join(map(json_value, value)) + "]"
    match value:
        case datetime():
            moment = value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
            return f'{{"$datetime": "{moment}Z"}}'
        case float() if value.is_integer():
            return format(value, ".1f")
        case str():
            return _text(value)
        case _:
            return json.dumps(value, allow_nan=False)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def read_metadata(stored: Mapping[str, object]) -> dict[str, MetadataValue]:
    return {key: _read_value(value) for key, value in stored.items()}


def _read_value(value: object) -> MetadataValue:
    if isinstance(value, list):
        return tuple(_read_scalar(item) for item in cast("list[object]", value))
    return _read_scalar(value)


def _read_scalar(value: object) -> Scalar:
    if isinstance(value, dict):
        return datetime.fromisoformat(cast("dict[str, str]", value)["$datetime"])
    return cast(Scalar, value)


def document_values(document: Document) -> dict[str, object]:
    """The parameters of `put_document`."""
    return {
        "document_id": document.document_id,
        "base_id": document.base_id,
        "uri": document.uri,
        "title": document.title,
        "text": document.text,
        "media_type": document.media_type,
        "revision": document.revision,
        "pages": json.dumps([[page.number, page.start, page.end] for page in document.pages]),
        "headings": json.dumps([[list(item.path), item.start, item.end] for item in document.headings]),
        "metadata": json_metadata(document.metadata),
        "warnings": json.dumps([[remark.key, dict(remark.values)] for remark in document.warnings]),
        "rows": json_rows(document.rows),
        "boxes": json.dumps([_box(box) for box in document.boxes], separators=(",", ":"), allow_nan=False),
    }


def read_document(row: Mapping[str, object]) -> Document:
    """The document as it was given, from a row of the query `document`."""
    return Document(
        document_id=cast(str, row["document_id"]),
        base_id=cast(str, row["base_id"]),
        uri=cast(str, row["uri"]),
        title=cast(str, row["title"]),
        text=cast(str, row["text"]),
        media_type=cast(str, row["media_type"]),
        revision=cast(str, row["revision"]),
        pages=_read_pages(row["pages"]),
        headings=_read_headings(row["headings"]),
        metadata=read_metadata(cast("dict[str, object]", row["metadata"])),
        warnings=read_remarks(row["warnings"]),
        boxes=tuple(map(_read_box, cast("list[list[float]]", row["boxes"]))),
        rows=_read_rows(row["rows"]),
    )


def json_rows(rows: Sequence[RowSpan]) -> str:
    return json.dumps([[span.first, span.last, span.start, span.end] for span in rows])


def read_layout(media_type: str, pages: object, headings: object, rows: object = None) -> Layout:
    """What says where a text stands, of the columns of a document or a chunk."""
    return Layout(
        media_type=media_type,
        pages=tuple(sorted(_read_pages(pages), key=lambda span: span.start)),
        headings=_read_headings(headings),
        rows=_read_rows(rows or []),
    )


def _read_pages(value: object) -> tuple[PageSpan, ...]:
    spans = cast("list[tuple[int, int, int]]", value)
    return tuple(PageSpan(number=number, start=start, end=end) for number, start, end in spans)


def _read_headings(value: object) -> tuple[HeadingSpan, ...]:
    spans = cast("list[tuple[list[str], int, int]]", value)
    return tuple(HeadingSpan(path=tuple(path), start=start, end=end) for path, start, end in spans)


def _read_rows(value: object) -> tuple[RowSpan, ...]:
    spans = cast("list[tuple[int, int, int, int]]", value)
    return tuple(RowSpan(first=first, last=last, start=start, end=end) for first, last, start, end in spans)


def _box(box: Box) -> list[float]:
    return [box.page, box.start, box.end, box.x0, box.y0, box.x1, box.y1]


def _read_box(row: list[float]) -> Box:
    page, start, end = map(int, row[:3])
    x0, y0, x1, y1 = map(float, row[3:])
    return Box(page=page, start=start, end=end, x0=x0, y0=y0, x1=x1, y1=y1)


def read_remarks(value: object) -> tuple[Remark, ...]:
    """The column `warnings`."""
    pairs = cast("list[tuple[str, dict[str, str | int]]]", value)
    return tuple(Remark(key=key, values=values) for key, values in pairs)


def chunk_row(chunk: Chunk, base_id: str, terms: Sequence[str], rows: Sequence[RowSpan] = ()) -> Row:
    """The fields of `copy_chunks` but the generation. `terms` are those of the checked chunk's text."""
    return (
        chunk.chunk_id.encode(),
        chunk.document_id.encode(),
        base_id.encode(),
        integer(chunk.index),
        chunk.text.encode(),
        integer(chunk.start),
        integer(chunk.end),
        chunk.context.encode(),
        None if chunk.page is None else integer(chunk.page),
        _jsonb(json.dumps(list(chunk.headings))),
        _jsonb(json_metadata(chunk.metadata)),
        *(map(integer, chunk.parent) if chunk.parent else (None, None)),
        tsvector(terms),
        integer(len(terms)),
        _jsonb(json_rows(rows)),
    )


def vector_row(
    chunk: Chunk,
    base_id: str,
    model_id: int,
    vector: NDArray[np.float32],
    tokens: NDArray[np.generic] | None,
) -> Row:
    """The fields of `copy_vectors` but the generation. `vector` has length 1 or 0."""
    return (
        chunk.chunk_id.encode(),
        integer(model_id),
        base_id.encode(),
        chunk.embedding_hash.encode(),
        struct.pack(">hh", vector.shape[0], 0) + vector.astype(">f2").tobytes(),
        None if tokens is None or not len(tokens) else tokens.tobytes(),
    )


def read_halfvec(data: bytes) -> NDArray[np.float32]:
    return np.frombuffer(data, dtype=">f2", offset=4).astype(np.float32)


def read_tokens(data: bytes, dimension: int) -> NDArray[np.uint8]:
    """Token vectors of a model with so many dimensions, as `late.passage_tokens` gave them."""
    return np.frombuffer(data, dtype=np.uint8).reshape(-1, -(-dimension // 8))


def vector_text(vector: NDArray[np.float32]) -> str:
    """A vector as a bound parameter that is cast to halfvec."""
    return "[" + ",".join(map(repr, vector.tolist())) + "]"


def tsvector(terms: Sequence[str]) -> bytes:
    """Terms with their positions, in the binary form of tsvector.

    The rarest need no more than one place, so what the type cannot hold (places beyond
    16,383 or 255 of one term, about a megabyte in all) is left out or moved to the end.
    """
    places: defaultdict[str, list[int]] = defaultdict(list)
    for position, term in enumerate(terms, start=1):
        places[term].append(position)
    lexemes: list[bytes] = []
    size = 0
    for term, found in places.items():
        lexeme = _lexeme(term.encode(), found)
        if size + len(lexeme) + _ENTRY <= _MAX_TSVECTOR:
            lexemes.append(lexeme)
            size += len(lexeme) + _ENTRY
    return struct.pack(">i", len(lexemes)) + b"".join(lexemes)


def _lexeme(term: bytes, places: Sequence[int]) -> bytes:
    if places[-1] > _MAX_POSITION:
        places = list(dict.fromkeys(min(place, _MAX_POSITION) for place in places))
    count = min(len(places), _MAX_POSITIONS)
    return term + b"\x00" + struct.pack(f">{count + 1}H", count, *places[:count])


def tsquery(term: str) -> str:
    """The text of a tsquery that matches this lexeme and nothing else."""
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"


def integer(value: int) -> bytes:
    """A field of type integer."""
    return struct.pack(">i", value)


def _jsonb(text: str) -> bytes:
    return b"\x01" + text.encode()
