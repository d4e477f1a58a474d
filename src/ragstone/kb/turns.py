"""Questions and answers of sessions, from the first stored word to the last.

A question and its empty answer are written in one transaction, with numbers that the database
gives, so that two tabs never collide (rows A94, W18). While the answer is written its process
saves what there is each second, says that it lives, and learns whether it shall stop. What a
dead process left is ended by the next one that looks (row W17).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
from psycopg.types.json import Jsonb

from ragstone.errors import Conflict, NotFound, StoreError, first_error
from ragstone.kb.answers import (
    Answering,
    Emit,
    Ending,
    Question,
    count,
    insisting,
    prepare,
    visible_bases,
)
from ragstone.kb.bases import QUERIES
from ragstone.kb.bootstrap import App
from ragstone.kb.caller import Caller
from ragstone.kb.plain import plain, plain_text
from ragstone.kb.redaction import Item, missing_documents, redact
from ragstone.kb.sessions import StoredMessage, bases_of, one, reach, stored_message
from ragstone.memory import MAX_MESSAGES, turn, window
from ragstone.postgres.pool import Connection, Database
from ragstone.types import Message

_LOGGER = logging.getLogger(__name__)

BEAT_S = 1.0
"""How often what was said is saved; a stop is noticed as soon."""

LEASE_S = 10.0
"""An answer whose process said nothing for so long is dead. Ten beats: a busy machine may miss some."""

REPAIR_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A question with the place of its answer, which is being written.

    `history` are the turns before it, oldest first.
    """

    session_id: str
    message_id: str
    question_id: str
    seq: int
    history: tuple[Message, ...]


async def ask(
    app: App, caller: Caller, session_id: str, text: str, *, filter: str | None, top_k: int | None
) -> tuple[Turn, Question]:
    """A question to the bases of a session, checked and stored with the place of its answer.

    Raises:
        NotFound: no such session of this caller. Conflict: none of its bases is left.
        As `answers.prepare`.
    """
    question = await _prepared(app, caller, session_id, text, filter, top_k)
    return await begin(await app.database(), caller, session_id, text), question


async def ask_again(
    app: App, caller: Caller, session_id: str, message_id: str, *, filter: str | None, top_k: int | None
) -> tuple[Turn, Question]:
    """The question of an answer, to be answered anew in its place.

    Raises:
        NotFound: no such message of this caller. As `ask` and `begin_again`.
    """
    database = await app.database()
    answer = await stored_message(database, caller, session_id, message_id)
    text = (await question_of(database, caller, answer)).content
    question = await _prepared(app, caller, session_id, text, filter, top_k)
    return await begin_again(database, caller, answer), question


async def _prepared(
    app: App, caller: Caller, session_id: str, text: str, filter: str | None, top_k: int | None
) -> Question:
    session = await one(await app.database(), caller, session_id)
    base_ids = bases_of(session, await visible_bases(app, caller))
    return await prepare(app, caller, text, base_ids=base_ids, filter=filter, top_k=top_k)


async def begin(database: Database, caller: Caller, session_id: str, text: str) -> Turn:
    """Store a question and its empty answer.

    Raises:
        NotFound: no such session of this caller.
    """
    question_id, message_id = secrets.token_hex(8), secrets.token_hex(8)
    async with database.transaction() as connection:
        seq = await _take_seqs(connection, caller, session_id, 2)
        question = {"message_id": question_id, "session_id": session_id, "seq": seq}
        await connection.execute(QUERIES["insert_question"], {**question, "content": plain_text(text)})
        await _insert_answer(connection, session_id, message_id, seq + 1, question_id)
        return Turn(
            session_id=session_id,
            message_id=message_id,
            question_id=question_id,
            seq=seq + 1,
            history=await _history(connection, session_id, seq),
        )


async def begin_again(database: Database, caller: Caller, answer: StoredMessage) -> Turn:
    """A new empty answer in place of `answer`, which is kept as replaced.

    Raises:
        NotFound: the session is gone.
        Conflict: it is still being written, or was replaced already.
    """
    message_id, question = secrets.token_hex(8), await question_of(database, caller, answer)
    async with database.transaction() as connection:
        seq = await _take_seqs(connection, caller, answer.session_id, 1)
        await _insert_answer(connection, answer.session_id, message_id, seq, question.message_id)
        replaced = await connection.execute(
            QUERIES["replace_answer"], {"message_id": answer.message_id, "new_id": message_id}
        )
        if not replaced.rowcount:
            raise Conflict("session.replaced", message_id=answer.message_id)
        return Turn(
            session_id=answer.session_id,
            message_id=message_id,
            question_id=question.message_id,
            seq=seq,
            history=await _history(connection, answer.session_id, question.seq),
        )


async def question_of(database: Database, caller: Caller, answer: StoredMessage) -> StoredMessage:
    """The question that `answer` replies to.

    Raises:
        Conflict: it is no answer. NotFound: the session is gone.
    """
    if answer.reply_to is None:
        raise Conflict("session.no_answer", message_id=answer.message_id)
    return await stored_message(database, caller, answer.session_id, answer.reply_to)


async def _take_seqs(connection: Connection, caller: Caller, session_id: str, wanted: int) -> int:
    cursor = await connection.execute(
        QUERIES["take_seqs"], {"session_id": plain_text(session_id), "count": wanted, **reach(caller)}
    )
    row = await cursor.fetchone()
    if row is None:
        raise NotFound("session.not_found", session_id=session_id)
    return row[0]


async def _insert_answer(
    connection: Connection, session_id: str, message_id: str, seq: int, question_id: str
) -> None:
    values = {"message_id": message_id, "session_id": session_id, "seq": seq, "reply_to": question_id}
    await connection.execute(QUERIES["insert_answer"], {**values, "lease": LEASE_S})


async def _history(connection: Connection, session_id: str, before: int) -> tuple[Message, ...]:
    values = {"session_id": session_id, "before": before, "limit": MAX_MESSAGES // 2}
    rows = await (await connection.execute(QUERIES["earlier_turns"], values)).fetchall()
    turns = [turn(question, answer, whole=status == "complete") for question, answer, status in rows]
    return window([message for messages in reversed(turns) for message in messages])


# --- while it is written -------------------------------------------------------------


async def write(app: App, place: Turn, question: Question, emit: Emit) -> Ending:
    """Answer `question` into its place; `emit` gets the events but the last.

    Nothing of ours is raised, `Ending.error` has it, but for a database that stays away when
    the answer is to be stored. Cancelled, what had been said is stored as partial; so it is
    when `stop` was called, of which the `Ending` says.
    """
    database = await app.database()
    question = question.with_history(place.history)
    answering = Answering(app, question)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_keep, database, place.message_id, answering, tasks.cancel_scope)
            await answering.run(emit)
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_error(group) from group
    finally:
        ending = await answering.ending()

        async def end(connection: Connection) -> None:
            await finish(connection, place.message_id, ending)
            await count(connection, question, ending)

        with anyio.CancelScope(shield=True):
            await insisting(database, end)
    return ending


async def _keep(database: Database, message_id: str, answering: Answering, scope: anyio.CancelScope) -> None:
    """Save what there is again and again; cancel `scope` when the answer shall stop or was deleted."""
    while True:
        await anyio.sleep(BEAT_S)
        try:
            going = await progress(
                database, message_id, answering.text, mode=answering.mode, sources=answering.sources
            )
        except StoreError as error:
            _LOGGER.warning("answer not saved meanwhile", extra={"code": error.code})
            continue
        if not going:
            scope.cancel()
            return


async def progress(
    database: Database, message_id: str, text: str, *, mode: str | None, sources: Sequence[Item]
) -> bool:
    """Save what was said so far and say that its process lives; False when it shall stop."""
    values = {"message_id": message_id, "content": text, "mode": mode, "lease": LEASE_S}
    async with database.connection() as connection:
        cursor = await connection.execute(QUERIES["progress"], {**values, **_sources(sources)})
        row = await cursor.fetchone()
    return row is not None and not row[0]


async def finish(connection: Connection, message_id: str, ending: Ending) -> None:
    """Store how an answer ended, without what it has of documents that were deleted meanwhile.

    The last word of the process that wrote it, also where another one took that for dead.
    """
    documents = [item["document_id"] for item in ending.sources]
    # Before the message is locked, as a deletion does.
    missing = await missing_documents(connection, documents)
    values = {
        "message_id": message_id,
        "content": ending.text,
        "status": ending.status,
        "mode": ending.mode,
        "answered": ending.answered,
        "citations": Jsonb(ending.citations),
        "trace": Jsonb(ending.trace),
        "degraded": Jsonb(ending.degraded),
        "audit": Jsonb(plain(ending.audit)),
        "usage": Jsonb(ending.usage),
        "error_code": ending.error_code,
    }
    await connection.execute(QUERIES["finish"], {**values, **_sources(ending.sources)})
    if ending.status == "failed":
        # What it should have replaced is still the answer.
        await connection.execute(QUERIES["restore_answer"], {"message_id": message_id})
    await redact(connection, missing)


def _sources(sources: Sequence[Item]) -> dict[str, object]:
    documents = dict.fromkeys(item["document_id"] for item in sources)
    return {"sources": Jsonb(list(sources)), "documents": list(documents)}


async def stop(database: Database, caller: Caller, session_id: str, message_id: str) -> None:
    """Ask whoever writes this answer to stop, within a second; one that has ended stays as it is.

    Raises:
        NotFound: no such message of this caller.
    """
    message = await stored_message(database, caller, session_id, message_id)
    async with database.connection() as connection:
        await connection.execute(QUERIES["stop_message"], {"message_id": message.message_id})


# --- what dead processes left ---------------------------------------------------------


async def repair(database: Database) -> int:
    """End what is marked as being written by processes that are no more; how many there were."""
    async with database.transaction() as connection:
        dead = await (await connection.execute(QUERIES["dead_messages"])).fetchall()
        if not dead:
            return 0
        documents = [document_id for _, found in dead for document_id in found]
        await redact(connection, await missing_documents(connection, documents))
        values = {"message_ids": [row[0] for row in dead], "error_code": "session.interrupted"}
        await connection.execute(QUERIES["repair_messages"], values)
    _LOGGER.warning("unfinished answers ended", extra={"messages": len(dead)})
    return len(dead)
