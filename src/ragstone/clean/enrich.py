"""Filter documents, add to their metadata, put a name in front of chunks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from ragstone.metadata import MetadataValue
from ragstone.protocols import ChunkTransformer, Cleaner
from ragstone.types import Chunk, Document

PREFIX = 120
"""Characters of a prefix: with title, headings and a table's header it must stay in the model's length."""


def keep_if(wanted: Callable[[Document], bool]) -> Cleaner:
    """Keeps the documents for which `wanted` is true and drops the others."""

    def keep(document: Document) -> Document | None:
        return document if wanted(document) else None

    return keep


def enriched(
    metadata: Mapping[str, MetadataValue] | Callable[[Document], Mapping[str, MetadataValue]],
) -> Cleaner:
    """Adds metadata, given or worked out from the document; what the document has already wins.

    Raises (when it runs):
        InvalidMetadata: a value that cannot be stored.
    """

    def enrich(document: Document) -> Document:
        added = metadata(document) if callable(metadata) else metadata
        return replace(document, metadata={**added, **document.metadata})

    return enrich


def file_name(document: Document) -> dict[str, MetadataValue]:
    """`file_name` from the document's address, for `enriched`; nothing where it has none."""
    name = PurePosixPath(unquote(urlsplit(document.uri).path)).name
    return {"file_name": name} if name and urlsplit(document.uri).scheme != "sha256" else {}


def prefixed(*keys: str, limit: int = PREFIX) -> ChunkTransformer:
    """Puts the values of these metadata keys in front of a chunk's context, at most `limit` characters.

    `prefixed("file_name")` after `enriched(file_name)` makes a file findable by its name.
    The embedding then changes with the name: a renamed file is embedded anew.
    """

    def prefix(chunk: Chunk) -> Chunk:
        values = [str(chunk.metadata[key]) for key in keys if key in chunk.metadata]
        line = " ".join(" > ".join(values).split())[:limit]
        context = f"{line}\n{chunk.context}" if line and chunk.context else line or chunk.context
        return replace(chunk, context=context)

    return prefix
