"""`/api/keys`: made, listed and revoked by admins; `/api/me`: what the caller's own key may do."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import AwareDatetime, BaseModel, Field, StrictInt

from ragstone.kb import keys
from ragstone.kb.api.dependencies import Parts, Who
from ragstone.kb.api.models import NOT_BLANK, Limit, Offset, Page, RequestBody
from ragstone.kb.caller import AccessRole

router = APIRouter(prefix="/api", tags=["keys"])

KeyId = Annotated[str, Path(max_length=64)]


class KeyRequest(RequestBody):
    name: str = Field(json_schema_extra=NOT_BLANK, max_length=keys.MAX_NAME, examples=["Intranet search"])
    role: AccessRole = Field(examples=["reader"])
    bases: list[str] | None = Field(
        default=None,
        max_length=keys.MAX_BASES,
        description="Ids of the bases it may see; null for every base.",
    )
    per_minute: StrictInt | None = Field(
        default=None,
        ge=1,
        le=keys.MAX_PER_MINUTE,
        description="Requests a minute, counted by each server process; null for no limit.",
        examples=[120],
    )
    expires_at: Annotated[AwareDatetime | None, Field(strict=False)] = Field(
        default=None, examples=["2030-01-31T00:00:00Z"]
    )


class KeyFacts(BaseModel):
    """A key, without itself."""

    key_id: str
    name: str
    prefix: str = Field(description="The first characters of the key, to tell keys apart.")
    role: AccessRole
    bases: list[str] | None
    per_minute: int | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None = Field(description="To the minute.")


class NewKey(KeyFacts):
    key: str = Field(description="The key itself. It is shown this once and not stored.")


class Me(BaseModel):
    """What this caller may do; `bases` is null for every base, `key_id` on a server without keys."""

    key_id: str | None
    role: AccessRole
    bases: list[str] | None


@router.post("/keys", status_code=201)
async def create_key(body: KeyRequest, parts: Parts, who: Who) -> NewKey:
    """Make a key."""
    info, key = await keys.create(
        await parts.database(),
        who,
        name=body.name,
        role=body.role,
        bases=body.bases,
        per_minute=body.per_minute,
        expires_at=body.expires_at,
    )
    (await parts.keyring()).forget()
    return NewKey(**facts(info).model_dump(), key=key)


@router.get("/keys")
async def list_keys(parts: Parts, who: Who, limit: Limit = 50, offset: Offset = 0) -> Page[KeyFacts]:
    """Every key, the newest first, the revoked ones too."""
    found, total = await keys.listing(await parts.database(), who, limit=limit, offset=offset)
    return Page(items=[facts(info) for info in found], total=total, limit=limit, offset=offset)


@router.delete("/keys/{key_id}")
async def revoke_key(key_id: KeyId, parts: Parts, who: Who) -> KeyFacts:
    """End a key for good; every server process refuses it within two seconds."""
    revoked = await keys.revoke(await parts.database(), who, key_id)
    (await parts.keyring()).forget()
    return facts(revoked)


@router.get("/me")
async def show_me(who: Who) -> Me:
    """What this key may do."""
    return Me(key_id=who.key_id, role=who.role, bases=None if who.bases is None else sorted(who.bases))


def facts(info: keys.KeyInfo) -> KeyFacts:
    return KeyFacts.model_validate(info, from_attributes=True)
