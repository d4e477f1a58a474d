"""What was changed, when and by which key: written beside the change, read by admins.

Never a question, and nothing of a document's content.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from ragstone.kb.bases import QUERIES
from ragstone.kb.caller import Caller
from ragstone.postgres.pool import Connection, Database

Action: TypeAlias = Literal[
    "base.create",
    "base.update",
    "base.delete",
    "base.reindex",
    "document.upload",
    "document.update",
    "document.retry",
    "document.delete",
    "chunk.update",
    "job.cancel",
    "job.replay",
    "session.delete",
    "key.create",
    "key.revoke",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One change. `subject` is the id of what was changed; `key_id` is None for the machine's owner."""

    audit_id: int
    at: datetime
    key_id: str | None
    action: str
    base_id: str | None
    subject: str
    detail: Mapping[str, Any]


async def record(
    where: Connection | Database,
    caller: Caller,
    action: Action,
    *,
    base_id: str | None = None,
    subject: str = "",
    detail: Mapping[str, object] | None = None,
) -> None:
    """Write that `caller` did `action`; on a connection inside the transaction that does it.

    `detail` holds what JSON can: names, numbers, counts.
    """
    values = {
        "key_id": caller.key_id,
        "action": action,
        "base_id": base_id,
        "subject": subject,
        "detail": Jsonb(dict(detail or {})),
    }
    if isinstance(where, Database):
        async with where.connection() as connection:
            await connection.execute(QUERIES["insert_audit"], values)
    else:
        await where.execute(QUERIES["insert_audit"], values)


async def listing(
    database: Database,
    *,
    limit: int,
    offset: int = 0,
    action: str | None = None,
    base_id: str | None = None,
    key_id: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> tuple[list[AuditEntry], int]:
    """Entries, the latest first, and how many there are in all; from `since`, before `until`."""
    values = {"action": action, "base_id": base_id, "key_id": key_id, "since": since, "until": until}
    async with database.connection() as connection:
        counted = await (await connection.execute(QUERIES["count_audit"], values)).fetchone()
        async with connection.cursor(row_factory=class_row(AuditEntry)) as cursor:
            page = values | {"limit": limit, "offset": offset}
            entries = await (await cursor.execute(QUERIES["list_audit"], page)).fetchall()
    return entries, 0 if counted is None else counted[0]
