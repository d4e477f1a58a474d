"""The original of a file: what a job reads, and what people download."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from psycopg.rows import dict_row

from ragstone.errors import NoText, NotFound
from ragstone.kb import uploads
from ragstone.kb.bases import QUERIES
from ragstone.kb.bootstrap import App
from ragstone.kb.jobs import Job
from ragstone.kb.loading import Loading
from ragstone.metadata import Metadata
from ragstone.store.encoding import read_metadata
from ragstone.types import Blob, LoadFailure


async def read_blob(parts: App, job: Job) -> Blob:
    """The bytes that an `index` job is about, with the file's uri, name and metadata.

    Of an address that was not read yet they are fetched, and kept as the original.

    Raises:
        NotFound: the file or its original is gone. ContentError: the address cannot be read.
        StoreUnavailable: the blob store does not answer.
    """
    database = await parts.database()
    async with database.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
        row = await (
            await cursor.execute(QUERIES["file_for_job"], {"document_id": job.document_id})
        ).fetchone()
    if row is None:
        raise NotFound("file.not_found", document_id=job.document_id, base_id=job.base_id)
    metadata = read_metadata(row["metadata"])
    if row["blob_hash"] is None:
        return await _fetched(parts, job, row, metadata)
    blobs = await parts.blobs()
    pieces = [piece async for piece in blobs.read(row["blob_hash"])]
    return Blob(
        uri=row["uri"],
        name=row["name"],
        data=b"".join(pieces),
        media_type=row["media_type"],
        metadata=metadata,
    )


async def _fetched(parts: App, job: Job, row: dict[str, Any], metadata: Metadata) -> Blob:
    assert job.document_id is not None
    loading = Loading(parts.settings)
    try:
        async with aclosing(loading(row["uri"])) as stream:
            async for item in stream:
                if isinstance(item, LoadFailure):
                    raise item.error
                if isinstance(item, Blob):
                    break
            else:
                raise NoText("load.empty", name=row["name"])
    finally:
        await loading.aclose()
    await uploads.keep_original(
        await parts.database(), await parts.blobs(), job.document_id, version=row["version"], blob=item
    )
    return Blob(
        uri=row["uri"],
        name=item.name,
        data=item.data,
        media_type=item.media_type,
        modified=item.modified,
        metadata={**item.metadata, **metadata},
    )
