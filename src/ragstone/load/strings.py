"""Texts in memory as a stream of blobs."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from ragstone.metadata import Metadata
from ragstone.types import Blob


async def strings(
    *texts: str, name: str = "text.txt", uri: str = "", metadata: Metadata | None = None
) -> AsyncGenerator[Blob, None]:
    """A blob for each text, read as what `name` says (`note.md`, `page.html`).

    Without `uri` a text is identified by its content; with it, texts after the first get
    `#2`, `#3`, ... behind it.
    """
    for number, text in enumerate(texts, 1):
        blob = Blob(uri=uri, name=name, data=text.encode("utf-8", "replace"), metadata=metadata or {})
        own = uri + (f"#{number}" if number > 1 else "") if uri else f"sha256:{blob.content_hash}"
        yield Blob(uri=own, name=name, data=blob.data, metadata=blob.metadata)
