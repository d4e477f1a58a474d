"""Filter documents, add to their metadata, put a name in front of chunks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from ragstone.clean.edits import revised
from ragstone.metadata import MetadataValue
from ragstone.types import Chunk, Document

PREFIX = 120
"""Characters of a prefix: with title, headings and a table's header it must stay in the model's length."""


@dataclass(frozen=True, slots=True)
class KeepIf:
    """The cleaner of `keep_if`."""

    wanted: Callable[[Document], bool]

    def __call__(self, document: Document) -> Document | None:
        return document if self.wanted(document) else None


def keep_if(wanted: Callable[[Document], bool]) -> KeepIf:
    """Keeps the documents for which `wanted` is true and drops the others."""
    return KeepIf(wanted)


@dataclass(frozen=True, slots=True)
class Enriched:
    """The cleaner of `enriched`."""

    metadata: Mapping[str, MetadataValue] | Callable[[Document], Mapping[str, MetadataValue]]

    def __call__(self, document: Document) -> Document:
        added = self.metadata(document) if callable(self.metadata) else self.metadata
        return replace(document, metadata={**added, **document.metadata})


def enriched(
    metadata: Mapping[str, MetadataValue] | Callable[[Document], Mapping[str, MetadataValue]],
) -> Enriched:
    """Adds metadata, given or worked out from the document; what the document has already wins.

    Raises (when it runs):
        InvalidMetadata: a value that cannot be stored.
    """
    return Enriched(metadata)


@revised("file_name/1")
def file_name(document: Document) -> dict[str, MetadataValue]:
    """`file_name` from the document's address, for `enriched`; nothing where it has none."""
    name = PurePosixPath(unquote(urlsplit(document.uri).path)).name
    return {"file_name": name} if name and urlsplit(document.uri).scheme != "sha256" else {}


@dataclass(frozen=True, slots=True)
class Prefixed:
    """The transformer of `prefixed`."""

    keys: tuple[str, ...]
    limit: int

    def __call__(self, chunk: Chunk) -> Chunk:
        values = [str(chunk.metadata[key]) for key in self.keys if key in chunk.metadata]
        line = " ".join(" > ".join(values).split())[: self.limit]
        context = f"{line}\n{chunk.context}" if line and chunk.context else line or chunk.context
        return replace(chunk, context=context)


def prefixed(*keys: str, limit: int = PREFIX) -> Prefixed:
    """Puts the values of these metadata keys in front of a chunk's context, at most `limit` characters.

    `prefixed("file_name")` after `enriched(file_name)` makes a file findable by its name.
    The embedding then changes with the name: a renamed file is embedded anew.
    """
    return Prefixed(keys, limit)
