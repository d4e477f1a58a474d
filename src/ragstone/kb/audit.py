"""What was changed, when and by which key: written beside the change, read by admins.

Never a question, and nothing of a document's content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from psycopg.types.json import Jsonb

from ragstone.kb import rows
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
    connection: Connection,
    caller: Caller,
    action: Action,
    *,
    base_id: str | None = None,
    subject: str = "",
    detail: Mapping[str, object] | None = None,
) -> None:
    """Write that `caller` did `action`, in the transaction that does it.

    `detail` holds what JSON can: names, numbers, counts.
    """
    await record_each(connection, caller, action, [subject], base_id=base_id, detail=detail)


async def record_each(
    connection: Connection,
    caller: Caller,
    action: Action,
    subjects: Sequence[str],
    *,
    base_id: str | None = None,
    detail: Mapping[str, object] | None = None,
) -> None:
    """`record` for several subjects."""
    values = {
        "key_id": caller.key_id,
        "action": action,
        "base_id": base_id,
        "subjects": list(subjects),
        "detail": Jsonb(dict(detail or {})),
    }
    await connection.execute(QUERIES["insert_audit"], values)


async def listing(
    database: Database,
    caller: Caller,
    *,
    limit: int,
    offset: int = 0,
    action: str | None = None,
    base_id: str | None = None,
    key_id: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> tuple[list[AuditEntry], int]:
    """Entries, the latest first, and how many there are in all; from `since`, before `until`.

    Raises:
        Forbidden: not for this caller.
    """
    caller.require("admin")
    values = {"action": action, "base_id": base_id, "key_id": key_id, "since": since, "until": until}
    return await rows.page(database, AuditEntry, "list_audit", values, limit=limit, offset=offset)
