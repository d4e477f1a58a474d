"""Conversations: sessions about one or several bases, and the messages in them.

A session is seen by the key that made it, and by admins of every base.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from psycopg.rows import dict_row

from ragstone.errors import Conflict, InputError, InvalidQuery, NotFound
from ragstone.kb import audit, rows
from ragstone.kb.answers import check_bases, place_item, visible_bases
from ragstone.kb.bases import QUERIES
from ragstone.kb.bootstrap import App
from ragstone.kb.caller import Caller
from ragstone.kb.plain import plain_text
from ragstone.kb.redaction import Item
from ragstone.messages import Language, render
from ragstone.metadata import storable
from ragstone.postgres.pool import Connection, Database
from ragstone.store.searching import FETCH, placed
from ragstone.types import Chunk

MAX_TITLE = 200
MAX_FEEDBACK = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session without its messages, of which there were `messages`, replaced ones counted.

    `base_ids` is empty for one about every base (`every_base`).
    """

    session_id: str
    title: str
    pinned: bool
    every_base: bool
    base_ids: list[str]
    messages: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """A message of a session. Of a question only the first six and the times say anything.

    `reply_to` is the question of an answer, `replaced_by` the answer that was made anew in its
    place. `sources` are passages without text; what came from documents that were deleted
    since is marked `removed`.
    """

    message_id: str
    session_id: str
    seq: int
    role: Literal["user", "assistant"]
    content: str
    status: Literal["streaming", "complete", "partial", "failed"]
    reply_to: str | None
    replaced_by: str | None
    mode: str | None
    answered: bool | None
    citations: list[Item]
    sources: list[Item]
    trace: list[Item]
    degraded: list[str]
    audit: Item
    usage: Item
    error_code: str | None
    feedback: int | None
    feedback_text: str
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What somebody thought of an answer: `rating` is 1 or -1."""

    message_id: str
    session_id: str
    rating: int
    text: str
    question: str | None
    answer: str
    mode: str | None
    answered: bool | None
    finished_at: datetime | None


def reach(caller: Caller) -> Mapping[str, object]:
    """Whose sessions the caller may see, as the statements ask: those of all keys, or of its own."""
    return {"every": caller.role == "admin" and caller.bases is None, "key_id": caller.key_id}


async def create(
    app: App, caller: Caller, *, base_ids: Sequence[str] | None, title: str | None, language: Language
) -> SessionInfo:
    """A new session about these bases, each once; None: about every base that who asks may see.

    Raises:
        InvalidQuery: no base. BaseNotFound: one that is not there or may not be seen.
        InputError: a title that cannot be one.
    """
    names = await visible_bases(app, caller)
    chosen = _chosen(base_ids, names)
    made = _checked_title(title) if title is not None else _title([names[one] for one in chosen], language)
    session_id = secrets.token_hex(8)
    database = await app.database()
    async with database.transaction() as connection:
        values = {"session_id": session_id, "key_id": caller.key_id, "title": made}
        await connection.execute(QUERIES["insert_session"], {**values, "every_base": base_ids is None})
        await _insert_bases(connection, session_id, chosen)
    return await one(database, caller, session_id)


def _chosen(base_ids: Sequence[str] | None, names: Mapping[str, str]) -> list[str]:
    if base_ids is None:
        return []
    if not base_ids:
        raise InvalidQuery("session.no_bases")
    check_bases(base_ids, names)
    return list(dict.fromkeys(base_ids))


async def _insert_bases(connection: Connection, session_id: str, base_ids: Sequence[str]) -> None:
    if base_ids:
        values = {"session_id": session_id, "base_ids": list(base_ids)}
        await connection.execute(QUERIES["insert_session_bases"], values)


def _checked_title(title: str) -> str:
    title = plain_text(title).strip()
    if not 1 <= len(title) <= MAX_TITLE or not title.isprintable():
        raise InputError("session.title", title=repr(title)[:80], limit=MAX_TITLE)
    return title


def _title(names: Sequence[str], language: Language) -> str:
    """Of one base its name, of several how many, as people read it in a list."""
    if len(names) == 1:
        return names[0]
    if not names:
        return render("session.title_all", language)
    return render("session.title_bases", language, count=len(names))


async def listing(
    database: Database, caller: Caller, *, search: str = "", limit: int, offset: int
) -> tuple[list[SessionInfo], int]:
    """Sessions, pinned ones first, then the latest used, and how many there are in all."""
    values = {**reach(caller), "search": plain_text(search)}
    return await rows.page(database, SessionInfo, "list_sessions", values, limit=limit, offset=offset)


async def one(database: Database, caller: Caller, session_id: str) -> SessionInfo:
    """Raises NotFound: no such session of this caller."""
    if not storable(session_id):
        raise NotFound("session.not_found", session_id=repr(session_id))
    values = {**reach(caller), "session_id": session_id}
    async with database.connection() as connection:
        found = await rows.read(connection, SessionInfo, "one_session", values)
    if not found:
        raise NotFound("session.not_found", session_id=session_id)
    return found[0]


async def change(
    app: App,
    caller: Caller,
    session_id: str,
    *,
    title: str | None = None,
    pinned: bool | None = None,
    base_ids: Sequence[str] | None = None,
    every_base: bool = False,
) -> SessionInfo:
    """Change what is given; `every_base` makes it one about every base, `base_ids` about these.

    Raises:
        NotFound: no such session. As `create` for bases and title (row W19).
    """
    database = await app.database()
    await one(database, caller, session_id)
    chosen = _chosen(base_ids, await visible_bases(app, caller))
    values = {
        **reach(caller),
        "session_id": session_id,
        "title": None if title is None else _checked_title(title),
        "pinned": pinned,
        "every_base": True if every_base else None if base_ids is None else False,
    }
    async with database.transaction() as connection:
        if not (await connection.execute(QUERIES["change_session"], values)).rowcount:  # deleted meanwhile
            raise NotFound("session.not_found", session_id=session_id)
        if base_ids is not None or every_base:
            await connection.execute(QUERIES["delete_session_bases"], {"session_id": session_id})
            await _insert_bases(connection, session_id, chosen)
    return await one(database, caller, session_id)


async def delete(database: Database, caller: Caller, session_id: str) -> None:
    """With all its messages. An answer that is being written stops.

    Raises:
        NotFound: no such session.
    """
    await one(database, caller, session_id)
    async with database.transaction() as connection:
        await connection.execute(QUERIES["delete_session"], {**reach(caller), "session_id": session_id})
        await audit.record(connection, caller, "session.delete", subject=session_id)


def bases_of(session: SessionInfo, names: Mapping[str, str]) -> list[str] | None:
    """The bases to ask: those of the session that are there and may be seen; None for every base.

    Raises:
        Conflict: none of them is left.
    """
    if session.every_base:
        return None
    left = [base_id for base_id in session.base_ids if base_id in names]
    if not left:
        raise Conflict("session.bases_gone", session_id=session.session_id)
    return left


# --- messages ------------------------------------------------------------------------


async def messages(
    database: Database, caller: Caller, session_id: str, *, limit: int, before: int | None = None
) -> list[StoredMessage]:
    """The latest `limit` messages of a session of this caller, below the number `before`, oldest first."""
    values = {**reach(caller), "session_id": session_id, "limit": limit, "before": before}
    async with database.connection() as connection:
        return await _placed(connection, await rows.read(connection, StoredMessage, "list_messages", values))


async def stored_message(
    database: Database, caller: Caller, session_id: str, message_id: str
) -> StoredMessage:
    """Raises NotFound: no such message in a session of this caller."""
    if not storable(session_id) or not storable(message_id):
        raise NotFound("session.no_message", message_id=repr(message_id))
    values = {**reach(caller), "session_id": session_id, "message_id": message_id}
    async with database.connection() as connection:
        found = await _placed(connection, await rows.read(connection, StoredMessage, "one_message", values))
    if not found:
        raise NotFound("session.no_message", message_id=message_id)
    return found[0]


async def _placed(connection: Connection, messages: list[StoredMessage]) -> list[StoredMessage]:
    """Messages whose citations say where their quotes stand.

    Those of an earlier time name the page their passage begins on; what is still stored says better.
    """
    old = {
        item["chunk_id"]
        for message in messages
        for item in (*message.citations, *message.sources)
        if "place" not in item and not item.get("removed")
    }
    if not old:
        return messages
    async with connection.cursor(row_factory=dict_row) as cursor:
        stored = await (await cursor.execute(FETCH, {"chunk_ids": list(old)})).fetchall()
    chunks = {hit.chunk.chunk_id: hit.chunk for hit in await placed(connection, stored)}
    return [
        replace(
            message,
            citations=[_with_place(item, chunks.get(item["chunk_id"])) for item in message.citations],
            sources=[_with_place(item, chunks.get(item["chunk_id"])) for item in message.sources],
        )
        for message in messages
    ]


def _with_place(item: Item, chunk: Chunk | None) -> Item:
    if chunk is None or "place" in item or item.get("removed"):
        return item
    start, end = item["start"], item["end"]
    if not chunk.start <= start <= end <= chunk.end:
        return item  # of a longer passage around it
    if "quote" in item and chunk.text[start - chunk.start : end - chunk.start] != item["quote"]:
        return item
    place = chunk.place(start, end)
    return {**item, **place_item(place, place.page)}


async def set_feedback(
    database: Database, caller: Caller, session_id: str, message_id: str, *, rating: int | None, text: str
) -> StoredMessage:
    """Say what an answer was worth: 1, -1, or None to take it back; the text may say why.

    Raises:
        NotFound: no such message. Conflict: it is no answer. InputError: too long.
    """
    message = await stored_message(database, caller, session_id, message_id)
    if message.role != "assistant":
        raise Conflict("session.no_answer", message_id=message_id)
    if len(text) > MAX_FEEDBACK:
        raise InputError("session.feedback_long", length=len(text), limit=MAX_FEEDBACK)
    values = {"message_id": message_id, "rating": rating, "text": plain_text(text) if rating else ""}
    async with database.connection() as connection:
        await connection.execute(QUERIES["set_feedback"], values)
    return await stored_message(database, caller, session_id, message_id)


async def feedback(
    database: Database, caller: Caller, *, rating: int | None, limit: int, offset: int
) -> tuple[list[Feedback], int]:
    """Answers that people rated, the latest first, and how many there are (row A82).

    Raises:
        Forbidden: not for this caller.
    """
    caller.require("admin")
    values = {**reach(caller), "rating": rating}
    return await rows.page(database, Feedback, "list_feedback", values, limit=limit, offset=offset)
