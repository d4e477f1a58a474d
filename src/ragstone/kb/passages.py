"""The chunks of a document as they are searched, with their places on the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row

from ragstone.errors import NotFound
from ragstone.kb import audit, files
from ragstone.kb.bases import QUERIES
from ragstone.kb.caller import Caller
from ragstone.metadata import MetadataValue
from ragstone.postgres.pool import Database
from ragstone.store.encoding import read_metadata
from ragstone.types import Box

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
        rows = await (await cursor.execute(QUERIES["list_passages"], values)).fetchall()
        if not rows:
            return [], info.chunks
        values |= {"start": rows[0]["start"], "end": max(row["end"] for row in rows)}
        found = await (await cursor.execute(QUERIES["boxes_between"], values)).fetchall()
    boxes = [_box(item["box"]) for item in found]
    return [_passage(row, boxes) for row in rows], info.chunks


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


def _passage(row: dict[str, Any], boxes: list[Box]) -> Passage:
    made: dict[str, Any] = {
        "headings": tuple(row["headings"]),
        "metadata": read_metadata(row["metadata"]),
        "boxes": tuple(box for box in boxes if box.start < row["end"] and box.end > row["start"]),
    }
    return Passage(**row | made)


def _box(row: list[float]) -> Box:
    page, start, end = map(int, row[:3])
    x0, y0, x1, y1 = map(float, row[3:])
    return Box(page=page, start=start, end=end, x0=x0, y0=y0, x1=x1, y1=y1)
