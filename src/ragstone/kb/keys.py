"""Keys: made, listed, revoked. The key itself is shown once and stored as a hash only.

A key is 256 random bits, so that its SHA-256 is as good as a slow hash and can be looked up.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from psycopg.rows import class_row

from ragstone.errors import BaseNotFound, InputError, NotFound
from ragstone.kb import audit, rows
from ragstone.kb.bases import QUERIES
from ragstone.kb.caller import AccessRole, Caller
from ragstone.postgres.pool import Database

MAX_NAME = 64
MAX_BASES = 1_000
MAX_PER_MINUTE = 1_000_000
PREFIX_LENGTH = 9
MAX_LIFE = timedelta(days=36_500)
_KEY = re.compile(r"rs_[A-Za-z0-9_-]{43}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyInfo:
    """A key as people see it. `bases` is None for every base; `per_minute` None for no limit."""

    key_id: str
    name: str
    prefix: str
    role: AccessRole
    bases: Sequence[str] | None
    per_minute: int | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


async def create(
    database: Database,
    caller: Caller,
    *,
    name: str,
    role: AccessRole,
    bases: Sequence[str] | None = None,
    per_minute: int | None = None,
    expires_at: datetime | None = None,
) -> tuple[KeyInfo, str]:
    """A new key and its text, which is nowhere afterwards. `bases` are ids, None for every base.

    Raises:
        Forbidden: not for this caller.
        InputError: a blank name, an empty list of bases, an admin of some bases only, a
            limit or an end that cannot be. BaseNotFound: names the first of `bases` that is not there.
    """
    caller.require("admin")
    _check(role, bases, per_minute, expires_at)
    key = "rs_" + secrets.token_urlsafe(32)
    values = {
        "key_id": secrets.token_hex(8),
        "name": _checked_name(name),
        "prefix": key[:PREFIX_LENGTH],
        "key_hash": hashed(key),
        "role": role,
        "bases": None if bases is None else sorted(set(bases)),
        "per_minute": per_minute,
        "expires_at": expires_at,
    }
    async with database.transaction() as connection:
        if bases is not None:
            cursor = await connection.execute(QUERIES["missing_bases"], {"base_ids": list(bases)})
            if missing := await cursor.fetchone():
                raise BaseNotFound("access.base", base_id=missing[0])
        async with connection.cursor(row_factory=class_row(KeyInfo)) as cursor:
            made = await (await cursor.execute(QUERIES["insert_key"], values)).fetchone()
        assert made is not None
        detail = {"name": made.name, "prefix": made.prefix, "role": made.role, "bases": made.bases}
        await audit.record(connection, caller, "key.create", subject=made.key_id, detail=detail)
    return made, key


async def listing(
    database: Database, caller: Caller, *, limit: int, offset: int = 0
) -> tuple[list[KeyInfo], int]:
    """Keys, the newest first, the revoked ones too; and how many there are in all.

    Raises:
        Forbidden: not for this caller.
    """
    caller.require("admin")
    return await rows.page(database, KeyInfo, "list_keys", {}, limit=limit, offset=offset)


async def revoke(database: Database, caller: Caller, key_id: str) -> KeyInfo:
    """End a key for good; other processes follow within two seconds. Twice is as once.

    Raises:
        Forbidden, NotFound: not for this caller, or there is no such key.
    """
    caller.require("admin")
    async with database.transaction() as connection:
        async with connection.cursor(row_factory=class_row(KeyInfo)) as cursor:
            found = await (await cursor.execute(QUERIES["revoke_key"], {"key_id": key_id})).fetchone()
        if found is None:
            raise NotFound("access.no_such_key", key_id=key_id)
        detail = {"name": found.name, "prefix": found.prefix}
        await audit.record(connection, caller, "key.revoke", subject=found.key_id, detail=detail)
    return found


async def made_any(database: Database) -> bool:
    """Whether a key was ever made. From then on the API asks for one, also when all are revoked."""
    async with database.connection() as connection:
        row = await (await connection.execute(QUERIES["any_key"])).fetchone()
    return bool(row and row[0])


async def any_usable(database: Database) -> bool:
    """Whether somebody can come in with a key."""
    async with database.connection() as connection:
        row = await (await connection.execute(QUERIES["usable_key"])).fetchone()
    return bool(row and row[0])


def hashed(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def well_formed(key: str) -> bool:
    """Whether this can be a key at all."""
    return _KEY.fullmatch(key) is not None


def _checked_name(name: str) -> str:
    name = unicodedata.normalize("NFC", name).strip()
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise InputError("access.key_name", name=repr(name)[:80], limit=MAX_NAME)
    return name


def _check(
    role: AccessRole, bases: Sequence[str] | None, per_minute: int | None, expires_at: datetime | None
) -> None:
    if bases is not None and role == "admin":
        raise InputError("access.admin_bases")
    if bases is not None and not 1 <= len(bases) <= MAX_BASES:
        raise InputError("access.key_bases", limit=MAX_BASES)
    if per_minute is not None and not 1 <= per_minute <= MAX_PER_MINUTE:
        raise InputError("access.per_minute", value=per_minute, limit=MAX_PER_MINUTE)
    if expires_at is None:
        return
    now = datetime.now(UTC)
    if expires_at.tzinfo is None or not now < expires_at <= now + MAX_LIFE:
        raise InputError("access.expires", value=expires_at.isoformat())
