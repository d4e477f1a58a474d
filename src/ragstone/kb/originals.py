"""What a job reads of its file: the bytes in the blob store, or first those at its address."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

from ragstone.errors import Conflict, SourceNotFound, UnsupportedContent
from ragstone.kb import uploads
from ragstone.kb.bases import QUERIES
from ragstone.kb.jobs import Job
from ragstone.kb.loading import Loading
from ragstone.store.encoding import read_metadata
from ragstone.types import Blob, LoadFailure

if TYPE_CHECKING:
    from ragstone.kb.bootstrap import App


async def read_blob(parts: App, job: Job) -> Blob:
    """The original of an `index` job, with the uri, name and metadata of its file.

    That of an address is read there and kept, unless it is kept already.

    Raises:
        Conflict: the file is gone, or has another version by now; nothing is to be done.
        NotFound: the blob store has lost it. StoreUnavailable: the blob store does not answer.
        RagstoneError: the address cannot be read; says why.
    """
    row = await _row(parts, job)
    blobs, own = await parts.blobs(), read_metadata(row["metadata"])
    if row["blob_hash"] is not None:
        pieces = [piece async for piece in blobs.read(row["blob_hash"])]
        return Blob(
            uri=row["uri"],
            name=row["name"],
            data=b"".join(pieces),
            media_type=row["media_type"],
            metadata=own,
        )
    found = await _at_address(parts, row["uri"])
    kept = await uploads.keep_original(
        await parts.database(), blobs, row["document_id"], version=row["version"], blob=found
    )
    if not kept:
        raise Conflict("jobs.taken", job_id=job.job_id)
    return Blob(
        uri=row["uri"],
        name=found.name,
        data=found.data,
        media_type=found.media_type,
        modified=found.modified,
        metadata={**found.metadata, **own},
    )


async def _row(parts: App, job: Job) -> Mapping[str, Any]:
    database, values = await parts.database(), {"document_id": job.document_id}
    async with database.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
        row = await (await cursor.execute(QUERIES["file_to_read"], values)).fetchone()
    if row is None:
        raise Conflict("jobs.taken", job_id=job.job_id)
    return row


async def _at_address(parts: App, uri: str) -> Blob:
    loading = Loading(parts.settings)
    try:
        async with aclosing(loading(uri)) as stream:
            async for item in stream:
                if isinstance(item, LoadFailure):
                    raise item.error
                if isinstance(item, Blob):
                    if item.uri != uri:
                        raise UnsupportedContent("jobs.sitemap", url=uri)
                    return item
    finally:
        await loading.aclose()
    raise SourceNotFound("kb.nothing_to_add", source=uri)
