"""Documents as people see them: listed, and found by id, address, path or file name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from psycopg.rows import dict_row
from psycopg.sql import SQL

from ragstone.address import readable
from ragstone.errors import InputError, NotFound
from ragstone.kb.bases import QUERIES
from ragstone.metadata import storable
from ragstone.postgres.pool import Database
from ragstone.store.encoding import read_remarks
from ragstone.types import Remark


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentInfo:
    """A stored document without its text. `pages` is 0 where the format has none.

    `name` is that of an uploaded file, None for what the command line read.
    """

    document_id: str
    base: str
    uri: str
    title: str
    name: str | None
    media_type: str
    chunks: int
    characters: int
    pages: int
    warnings: tuple[Remark, ...]
    created_at: datetime
    updated_at: datetime


async def listing(database: Database, base_id: str | None) -> list[DocumentInfo]:
    """Documents of one base, or of all, by base and address."""
    return await _read(database, QUERIES["list_documents"], {"base_id": base_id})


async def find(database: Database, reference: str, base_id: str | None) -> DocumentInfo:
    """The one document that `reference` names: id (or its first 6 characters), uri, path, file name, title.

    A whole id or uri and the path of a file that is there win over file names and titles.

    Raises:
        NotFound: none does. InputError: several do; names them.
    """
    reference = reference.strip()
    # A file name may hold bytes that are no UTF-8: such text is in no column, but its uri may be.
    stored = reference if storable(reference) else None
    uris = [uri for uri in (stored, _as_uri(reference)) if uri is not None]
    values = {
        "base_id": base_id,
        "reference": stored,
        "uris": uris,
        "tail": "/" + quote(os.fsencode(reference.lstrip("/"))),
    }
    found = await _read(database, QUERIES["find_documents"], values) if reference else []
    if not found:
        raise NotFound("kb.document_not_found", reference=reference)
    exact = [info for info in found if info.document_id == reference or info.uri in uris]
    if len(exact or found) > 1:
        matches = ", ".join(f"{info.document_id} ({info.base}: {readable(info.uri)})" for info in found[:5])
        raise InputError("kb.document_ambiguous", reference=reference, matches=matches)
    return (exact or found)[0]


async def _read(database: Database, query: SQL, values: Mapping[str, object]) -> list[DocumentInfo]:
    async with database.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
        rows = await (await cursor.execute(query, values)).fetchall()
    for row in rows:
        row["warnings"] = read_remarks(row["warnings"])
    return [DocumentInfo(**row) for row in rows]


def _as_uri(reference: str) -> str | None:
    try:
        return Path(reference).expanduser().resolve().as_uri()
    except (OSError, RuntimeError, ValueError):
        return None


async def chunk_ids(database: Database, document_id: str) -> list[str]:
    """The chunks of a document, in their order."""
    async with database.connection() as connection:
        rows = await (
            await connection.execute(QUERIES["document_chunks"], {"document_id": document_id})
        ).fetchall()
    return [row[0] for row in rows]
