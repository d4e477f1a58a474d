"""Passages that are kept and shown but found by no search.

A passage is known by its text within its document, so that it stays disabled when the
document is replaced or built anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from ragstone.postgres.pool import Connection
from ragstone.store.statements import QUERIES, Statement
from ragstone.types import Document


async def set_enabled(connection: Connection, chunk_ids: Sequence[str], enabled: bool) -> int:
    """One transaction, which writers of these documents wait for; how many of the ids there are."""
    named = {"chunk_ids": list(chunk_ids)}
    await connection.execute(QUERIES["lock_documents_of_chunks"], named)
    found = await (await connection.execute(QUERIES["passages_of_chunks"], named)).fetchall()
    if found:
        statement = _marked(
            [cast(str, row[0]) for row in found], [cast(str, row[1]) for row in found], enabled
        )
        await connection.execute(statement.sql, statement.values)
    return len(found)


def disabled_of(document: Document) -> Statement:
    """Hashes of the passages that are disabled in what is stored of the document."""
    values = {"base_id": document.base_id, "uri": document.uri}
    return Statement(QUERIES["disabled_of_source"], values, once=True)


def disabling(document: Document, hashes: Iterable[str]) -> list[Statement]:
    """What marks these passages of a document that was just written; nothing for none."""
    held = list(hashes)
    return [_marked([document.document_id] * len(held), held, False)] if held else []


def _marked(document_ids: Sequence[str], hashes: Sequence[str], enabled: bool) -> Statement:
    values = {"document_ids": list(document_ids), "hashes": list(hashes), "enabled": enabled}
    return Statement(QUERIES["set_enabled"], values)
