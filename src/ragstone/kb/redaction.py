"""What stored answers quote of documents that are gone is taken out of them (row C43)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from ragstone.kb.bases import QUERIES
from ragstone.language import language_of
from ragstone.messages import render
from ragstone.postgres.pool import Connection, Database

Item: TypeAlias = dict[str, Any]
"""A stored citation or source: `n`, `document_id`, `title`, `uri`, `page`, `place`, `quote`, ..."""

REDACT_S = 60.0

MIN_QUOTE = 12
"""Characters of a quote that is looked for in a model's text: shorter ones are words of anybody."""

_EMPTY: Item = {"title": "", "name": "", "uri": "", "quote": "", "place": {}}
"""What an item has of its document. A place names headings and sheets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """What of a stored message may come from documents."""

    message_id: str
    content: str
    mode: str | None
    # None: it was never finished.
    answered: bool | None
    citations: list[Item]
    sources: list[Item]


async def redact(connection: Connection, document_ids: Sequence[str]) -> int:
    """Take what came from these documents out of all stored answers; how many were changed.

    To be called in the transaction that deletes the documents, after the deletion, or when
    that is committed. Not before: an answer that is just being finished would be missed.
    """
    ids = list(dict.fromkeys(document_ids))
    if not ids:
        return 0
    async with connection.cursor(row_factory=class_row(StoredAnswer)) as cursor:
        await cursor.execute(QUERIES["lock_messages_of"], {"document_ids": ids})
        answers = await cursor.fetchall()
    for answer in answers:
        clean = redacted(answer, set(ids))
        values = {
            "message_id": clean.message_id,
            "content": clean.content,
            "citations": Jsonb(clean.citations),
            "sources": Jsonb(clean.sources),
            "document_ids": ids,
        }
        await connection.execute(QUERIES["redact_message"], values)
    return len(answers)


async def redact_deleted(database: Database, since: datetime | None) -> datetime:
    """Redact for every deletion on record since this moment, whoever made it; the moment to go on from.

    What deletes documents by itself, as the command line does, need not know of answers.
    """
    async with database.transaction() as connection:
        (now,) = await (await connection.execute(QUERIES["server_time"])).fetchone() or (None,)
        assert isinstance(now, datetime)
        cursor = await connection.execute(QUERIES["deleted_in_answers"], {"since": since})
        deleted = [row[0] for row in await cursor.fetchall()]
        if deleted:
            # One that was added again since is there.
            await redact(connection, await missing_documents(connection, deleted))
        return now


class NewDeletions:
    """Each call redacts for the deletions since the one before; the first for all on record."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._since: datetime | None = None

    async def __call__(self) -> None:
        self._since = await redact_deleted(self._database, self._since)


async def missing_documents(connection: Connection, document_ids: Sequence[str]) -> list[str]:
    """Those that are not there; the others cannot be deleted before this transaction ends."""
    ids = list(dict.fromkeys(document_ids))
    cursor = await connection.execute(QUERIES["keep_documents"], {"document_ids": ids})
    there = {row[0] for row in await cursor.fetchall()}
    return [document_id for document_id in ids if document_id not in there]


def redacted(answer: StoredAnswer, gone: Collection[str]) -> StoredAnswer:
    """The answer without what it has of the documents `gone` (pure).

    Of a citation or source its number, ids and offsets stay, marked `removed`. An extractive
    answer is made of quotes: it is written anew from those that remain. Of a model's text the
    quotes that stand in it word for word are replaced.
    """
    removed = [item for item in answer.citations if item["document_id"] in gone]
    kept = [item for item in answer.citations if item not in removed and not item.get("removed")]
    content = answer.content
    if answer.mode == "extractive":
        # One that was cut off has no citations: which source a sentence came from is not known.
        if removed or answer.answered is None:
            content = "\n\n".join(f"{item['quote']} [{item['n']}]" for item in kept) or _mark(content)
    else:
        for item in removed:
            if len(item["quote"]) >= MIN_QUOTE:
                content = content.replace(item["quote"], _mark(content))
    return StoredAnswer(
        message_id=answer.message_id,
        content=content,
        mode=answer.mode,
        answered=answer.answered,
        citations=_emptied(answer.citations, gone),
        sources=_emptied(answer.sources, gone),
    )


def _emptied(items: Sequence[Item], gone: Collection[str]) -> list[Item]:
    return [
        {**item, **{name: empty for name, empty in _EMPTY.items() if name in item}, "removed": True}
        if item["document_id"] in gone
        else item
        for item in items
    ]


def _mark(content: str) -> str:
    return render("session.removed", language_of(content))
