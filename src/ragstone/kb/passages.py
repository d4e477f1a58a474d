"""The chunks of a document as they are searched, with their places on the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg.rows import dict_row

from ragstone.errors import NotFound
from ragstone.kb import audit, files
from ragstone.kb.bases import QUERIES
from ragstone.kb.caller import Caller
from ragstone.metadata import MetadataValue
from ragstone.place import Place
from ragstone.postgres.pool import Database
from ragstone.store.searching import FETCH, placed
from ragstone.types import Box, Chunk

if TYPE_CHECKING:
    from ragstone.kb.bootstrap import App


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A chunk: characters `start` to `end` of the document's text, and what was indexed in front of it.

    `boxes` are the blocks of the page that it touches, where the format knows them. One that is
    not `enabled` is never found.
    """

    chunk_id: str
    index: int
    start: int
    end: int
    text: str
    context: str
    page: int | None
    page_end: int | None
    place: Place
    headings: tuple[str, ...]
    metadata: Mapping[str, MetadataValue]
    boxes: tuple[Box, ...]
    enabled: bool


async def listing(
    database: Database, caller: Caller, document_id: str, *, limit: int, offset: int
) -> tuple[list[Passage], int]:
    """A page of the chunks in the order of the text, and how many there are.

    Raises:
        NotFound: the document is not there, or not for this caller.
    """
    info = await files.one(database, caller, document_id)
    values: dict[str, object] = {"document_id": document_id, "limit": limit, "offset": offset}
    async with database.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
        listed = await (await cursor.execute(QUERIES["list_passages"], values)).fetchall()
        read = await cursor.execute(FETCH, {"chunk_ids": [row["chunk_id"] for row in listed]})
        hits = await placed(connection, await read.fetchall())
        if not hits:
            return [], info.chunks
        chunks = sorted((hit.chunk for hit in hits), key=lambda chunk: chunk.index)
        values |= {"start": chunks[0].start, "end": max(chunk.end for chunk in chunks)}
        found = await (await cursor.execute(QUERIES["boxes_between"], values)).fetchall()
    boxes = [_box(item["box"]) for item in found]
    return [_passage(chunk, boxes) for chunk in chunks], info.chunks


async def enable(parts: App, caller: Caller, document_id: str, chunk_id: str, enabled: bool) -> None:
    """Let a chunk be found, or not any more.

    Raises:
        Forbidden, NotFound: not for this caller, or the document has no such chunk now.
    """
    caller.require("editor")
    database = await parts.database()
    info = await files.one(database, caller, document_id)
    store = await parts.store()
    hits = await store.fetch([chunk_id])
    if not hits or hits[0].chunk.document_id != document_id:
        raise NotFound("file.no_chunk", chunk_id=chunk_id, document_id=document_id)
    if not await store.set_enabled([chunk_id], enabled):  # it was replaced since
        raise NotFound("file.no_chunk", chunk_id=chunk_id, document_id=document_id)
    async with database.transaction() as connection:
        await audit.record(
            connection,
            caller,
            "chunk.update",
            base_id=info.base_id,
            subject=chunk_id,
            detail={"enabled": enabled},
        )


def _passage(chunk: Chunk, boxes: list[Box]) -> Passage:
    return Passage(
        chunk_id=chunk.chunk_id,
        index=chunk.index,
        start=chunk.start,
        end=chunk.end,
        text=chunk.text,
        context=chunk.context,
        page=chunk.page,
        page_end=chunk.page_end,
        place=chunk.place(),
        headings=chunk.headings,
        metadata=chunk.metadata,
        boxes=tuple(box for box in boxes if box.start < chunk.end and box.end > chunk.start),
        enabled=chunk.enabled,
    )


def _box(row: list[float]) -> Box:
    page, start, end = map(int, row[:3])
    x0, y0, x1, y1 = map(float, row[3:])
    return Box(page=page, start=start, end=end, x0=x0, y0=y0, x1=x1, y1=y1)
