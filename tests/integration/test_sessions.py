"""Stored answers beside what HTTP shows: whose they are, and what deletions take out of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from ragstone.errors import BaseNotFound, NotFound
from ragstone.kb import sessions, turns
from ragstone.kb.answers import Ending, Question, prepare, visible_bases
from ragstone.kb.bases import ids_by_name
from ragstone.kb.bootstrap import App
from ragstone.kb.caller import OWNER, AccessRole, Caller
from ragstone.kb.redaction import redact, redact_deleted
from ragstone.kb.sessions import StoredMessage
from ragstone.kb.settings import load
from ragstone.kb.turns import Turn
from ragstone.postgres.pool import Database
from ragstone.types import Event, Sources
from talking import FERRY, LAKE, filled
from working import rows, until

pytestmark = pytest.mark.anyio

WHEN = "When does the ferry leave Halm?"


@pytest.fixture
async def app(conninfo: str, tmp_path: Path) -> AsyncIterator[App]:
    """The application over the bases `ferry` and `lake`; no chat model, so it quotes."""
    await filled(tmp_path, conninfo, ferry=FERRY, lake=LAKE)
    given = {"home": tmp_path, "database_url": conninfo, "test_embedder": "fake"}
    app = App(await anyio.to_thread.run_sync(lambda: load({}, overrides=given)))
    try:
        yield app
    finally:
        await app.aclose()


async def asked(app: App, *, caller: Caller = OWNER) -> tuple[Database, Turn, Question]:
    database = await app.database()
    session = await sessions.create(app, caller, base_ids=None, title="T", language="en")
    question = await prepare(app, caller, WHEN, base_ids=None)
    return database, await turns.begin(database, caller, session.session_id, WHEN), question


async def nobody(event: Event) -> None:
    """Takes the events."""


async def stored(database: Database, place: Turn) -> StoredMessage:
    return await sessions.stored_message(database, OWNER, place.session_id, place.message_id)


async def delete_documents(app: App) -> list[str]:
    """Every document, as the command line does; the ids."""
    database = await app.database()
    async with database.connection() as connection:
        rows = await (await connection.execute("SELECT document_id FROM documents")).fetchall()
    ids = [row[0] for row in rows]
    await (await app.store()).delete(ids)
    return ids


def nothing_left(message: StoredMessage) -> bool:
    kept = f"{message.content} {message.citations} {message.sources} {message.audit}"
    return "22:15" not in kept and "ferry" not in kept


async def test_c44_sessions_are_seen_by_the_key_that_made_them_and_by_admins_of_every_base(app: App) -> None:
    database = await app.database()
    names = await ids_by_name(database)
    callers: dict[str, Caller] = {}
    roles: tuple[tuple[str, AccessRole, frozenset[str] | None], ...] = (
        ("anna", "reader", frozenset({names["ferry"]})),
        ("bert", "reader", None),
        ("some", "admin", frozenset({names["ferry"]})),
        ("all", "admin", None),
    )
    for name, role, bases in roles:
        async with database.connection() as connection:
            await connection.execute(
                "INSERT INTO keys (key_id, name, prefix, key_hash, role) VALUES (%s, %s, '', %s, %s)",
                (name, name, name.encode(), role),
            )
        callers[name] = Caller(key_id=name, role=role, bases=bases)
    made = await sessions.create(app, callers["anna"], base_ids=None, title=None, language="zh")
    place = await turns.begin(database, callers["anna"], made.session_id, WHEN)
    for name, seen in (("anna", True), ("all", True), ("bert", False), ("some", False)):
        found, total = await sessions.listing(database, callers[name], limit=10, offset=0)
        assert (len(found), total) == (seen, seen)
        if not seen:
            for attempt in (
                sessions.one(database, callers[name], made.session_id),
                sessions.delete(database, callers[name], made.session_id),
                sessions.change(app, callers[name], made.session_id, title="x"),
                turns.begin(database, callers[name], made.session_id, WHEN),
                turns.stop(database, callers[name], made.session_id, place.message_id),
                sessions.stored_message(database, callers[name], made.session_id, place.message_id),
            ):
                with pytest.raises(NotFound):
                    await attempt
    with pytest.raises(BaseNotFound):
        await sessions.create(app, callers["anna"], base_ids=[names["lake"]], title=None, language="en")
    with pytest.raises(BaseNotFound):
        await sessions.change(app, callers["anna"], made.session_id, base_ids=[names["lake"]])
    # A session about every base is about those that who asks may see.
    question = await prepare(app, callers["anna"], "deep lake water", base_ids=None)
    seen_bases: set[str] = set()

    async def look(event: Event) -> None:
        if isinstance(event, Sources):
            seen_bases.update(hit.base_id for hit in event.hits)

    await turns.write(app, place, question, look)
    assert seen_bases == {names["ferry"]}


async def test_c43_what_the_command_line_deletes_leaves_stored_answers_too(app: App) -> None:
    database, place, question = await asked(app)
    ending = await turns.write(app, place, question, nobody)
    assert "22:15" in ending.text == (await stored(database, place)).content
    since = await redact_deleted(database, None)
    await delete_documents(app)
    await redact_deleted(database, since)
    message = await stored(database, place)
    assert message.status == "complete"
    assert message.content == "[removed: the document was deleted]"
    assert message.citations[0]["removed"] is True
    assert nothing_left(message)


async def test_c43_an_answer_that_is_finished_after_the_deletion_keeps_nothing_of_it(app: App) -> None:
    database, place, question = await asked(app)

    async def delete_meanwhile(event: Event) -> None:
        if isinstance(event, Sources):
            ids = await delete_documents(app)
            async with database.transaction() as connection:
                await redact(connection, ids)

    ending = await turns.write(app, place, question, delete_meanwhile)
    assert "22:15" in ending.text
    assert nothing_left(await stored(database, place))


async def test_c43_w17_what_a_dead_process_left_is_ended_without_what_was_deleted(app: App) -> None:
    database, place, _ = await asked(app)
    ids = await delete_documents(app)
    sources = [{"n": 1, "chunk_id": "c", "document_id": ids[0], "base_id": "b", "title": "ferry", "uri": "u"}]
    assert await turns.progress(database, place.message_id, FERRY, mode="extractive", sources=sources)
    assert await turns.repair(database) == 0
    async with database.connection() as connection:
        await connection.execute("UPDATE messages SET alive_until = now() WHERE status = 'streaming'")
    assert await turns.repair(database) == 1
    message = await stored(database, place)
    assert (message.status, message.error_code) == ("partial", "session.interrupted")
    assert nothing_left(message)
    assert not await turns.progress(database, place.message_id, "more", mode=None, sources=[])


async def test_w17_the_process_that_was_taken_for_dead_has_the_last_word(app: App) -> None:
    database, place, _ = await asked(app)
    async with database.connection() as connection:
        await connection.execute("UPDATE messages SET alive_until = now() WHERE status = 'streaming'")
    assert await turns.repair(database) == 1
    assert (await stored(database, place)).status == "failed"
    async with database.transaction() as connection:
        await turns.finish(connection, place.message_id, Ending(status="complete", text="All of it."))
    message = await stored(database, place)
    assert (message.status, message.content, message.error_code) == ("complete", "All of it.", None)


async def test_a89_an_answer_of_a_session_counts_once_for_each_base(app: App) -> None:
    database, place, question = await asked(app)
    await turns.write(app, place, question, nobody)
    async with database.connection() as connection:
        cursor = await connection.execute(
            "SELECT b.name, count(*) FROM question_bases JOIN bases b USING (base_id) GROUP BY 1 ORDER BY 1"
        )
        assert await cursor.fetchall() == [("ferry", 1), ("lake", 1)]


async def test_a_session_that_is_deleted_while_it_is_changed_is_not_found(app: App) -> None:
    database = await app.database()
    base_ids = list(await visible_bases(app, OWNER))
    session = await sessions.create(app, OWNER, base_ids=base_ids[:1], title="short", language="en")
    async with database.connection() as deleting, anyio.create_task_group() as tasks:
        await deleting.execute("DELETE FROM sessions WHERE session_id = %s", [session.session_id])
        failed: list[NotFound] = []

        async def change() -> None:
            try:
                await sessions.change(app, OWNER, session.session_id, base_ids=base_ids)
            except NotFound as error:
                failed.append(error)

        tasks.start_soon(change)
        waiting = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

        async def waits() -> bool:
            return bool(await rows(app, f"SELECT 1 {waiting}"))

        await until(waits)
        await deleting.commit()
    assert len(failed) == 1
