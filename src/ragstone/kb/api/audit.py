"""`/api/audit`: what was changed, when and by which key."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, Field

from ragstone.kb import audit
from ragstone.kb.api.dependencies import Parts, Who
from ragstone.kb.api.models import Limit, Offset, Page

router = APIRouter(prefix="/api", tags=["audit"])

Word = Annotated[str | None, Query(max_length=64)]


class Change(BaseModel):
    """One change; `subject` is the id of what was changed, `key_id` null for the command line."""

    audit_id: int
    at: datetime
    key_id: str | None
    action: str = Field(examples=["document.delete"])
    base_id: str | None
    subject: str
    detail: dict[str, Any] = Field(description="Names and numbers of the change, by action.")


@router.get("/audit")
async def list_audit(
    parts: Parts,
    who: Who,
    limit: Limit = 50,
    offset: Offset = 0,
    action: Annotated[audit.Action | None, Query()] = None,
    base_id: Word = None,
    key_id: Word = None,
    since: Annotated[AwareDatetime | None, Query()] = None,
    until: Annotated[AwareDatetime | None, Query()] = None,
) -> Page[Change]:
    """Changes, the latest first; from `since`, before `until`."""
    entries, total = await audit.listing(
        await parts.database(),
        who,
        limit=limit,
        offset=offset,
        action=action,
        base_id=base_id,
        key_id=key_id,
        since=since,
        until=until,
    )
    items = [Change.model_validate(entry, from_attributes=True) for entry in entries]
    return Page(items=items, total=total, limit=limit, offset=offset)
