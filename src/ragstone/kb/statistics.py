"""What is counted: documents and their states, questions and how they ended, in one base or in all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import dict_row

from ragstone.errors import BaseNotFound
from ragstone.kb.bases import QUERIES
from ragstone.kb.caller import Caller
from ragstone.metadata import storable
from ragstone.postgres.pool import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """`size` in bytes of originals; `categories` counts documents, the uncategorised under "".

    Questions ended answered, refused (nothing was found that answers them), interrupted or
    broken. Milliseconds to the first word and to the end; None without questions.
    """

    bases: int
    documents: int
    pending: int
    processing: int
    ready: int
    failed: int
    chunks: int
    size: int
    accesses: int
    categories: Mapping[str, int]
    questions: int
    answered: int
    refused: int
    interrupted: int
    broken: int
    first_ms_p50: float | None
    first_ms_p95: float | None
    total_ms_p50: float | None
    total_ms_p95: float | None


async def counted(
    database: Database, caller: Caller, *, base_id: str | None = None, since: datetime | None = None
) -> Statistics:
    """Of one base, or of all that the caller may see; questions since then, all others as they are now.

    Raises:
        BaseNotFound: not there, or not for this caller.
    """
    bases = None if caller.bases is None else sorted(caller.bases)
    if base_id is not None:
        caller.check_bases([base_id])
        bases = [base_id] if storable(base_id) else []
    values = {"bases": bases, "since": since}
    async with database.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
        row = await (await cursor.execute(QUERIES["statistics"], values)).fetchone()
    assert row is not None
    if base_id is not None and not row["bases"]:
        raise BaseNotFound("access.base", base_id=base_id)
    row.pop("opened")
    return Statistics(**row)
