"""`/api/sessions`: conversations, their messages, and answers in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictInt
from starlette.responses import StreamingResponse

from ragstone.kb import answers, sessions, turns
from ragstone.kb.answers import Question
from ragstone.kb.api.answered import MessageOut, Replied, ended, shown
from ragstone.kb.api.asking import STREAM, streamed, whole
from ragstone.kb.api.dependencies import Parts, Who
from ragstone.kb.api.events import EventStream
from ragstone.kb.api.models import NOT_BLANK, NOT_EMPTY, Limit, Offset, Page, RequestBody
from ragstone.kb.api.problems import wanted_language
from ragstone.kb.transcript import transcript
from ragstone.kb.turns import Turn

router = APIRouter(prefix="/api", tags=["sessions"])

MAX_EXPORTED = 10_000


class NewSession(RequestBody):
    """What a conversation is about."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"bases": ["5f2c9d1e8a7b4c60"], "title": "Ferries"}]},
    )

    bases: list[str] | None = Field(
        default=None, json_schema_extra=NOT_EMPTY, description="Ids; null for every base the key may see."
    )
    title: str | None = Field(default=None, description="Made from the bases when left out.")


class SessionChange(RequestBody):
    """What is left out stays. `bases`: null makes it a session about every base."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"pinned": True}]})

    title: str | None = None
    pinned: bool | None = None
    bases: list[str] | None = None


class NewQuestion(RequestBody):
    """A question in a session."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"question": "And on Sundays?"}]})

    question: str = Field(json_schema_extra=NOT_BLANK, description="Up to 8,000 characters, not blank.")
    filter: str | None = Field(default=None, description="Such as `year >= 2020 and lang == 'en'`.")
    top_k: StrictInt | None = Field(
        default=None, description="Passages the answer is written from, 1 to 1,000."
    )


class Anew(RequestBody):
    """How to answer anew."""

    model_config = ConfigDict(json_schema_extra={"examples": [{}]})

    filter: str | None = None
    top_k: StrictInt | None = None


ANEW = Anew()
"""What a request without a body means."""


class Rating(RequestBody):
    """What an answer was worth; null takes it back."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"rating": -1, "text": "Names the winter timetable."}]},
    )

    rating: Literal[-1, 1] | None
    text: str = ""


class SessionOut(BaseModel):
    session_id: str
    title: str
    pinned: bool
    bases: list[str] | None = Field(description="Ids of those that can be seen; null for every base.")
    messages: int = Field(description="How many there are.")
    created_at: datetime
    updated_at: datetime


class SessionDetail(SessionOut):
    items: list[MessageOut] = Field(description="Messages, oldest first; sources without their text.")


class FeedbackOut(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    message_id: str
    session_id: str
    rating: int
    text: str
    question: str | None
    answer: str
    mode: str | None
    answered: bool | None
    finished_at: datetime | None


def _session(info: sessions.SessionInfo, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "session_id": info.session_id,
        "title": info.title,
        "pinned": info.pinned,
        "bases": None if info.every_base else [one for one in info.base_ids if one in names],
        "messages": info.messages,
        "created_at": info.created_at,
        "updated_at": info.updated_at,
    }


@router.post("/sessions", status_code=201)
async def create_session(request: Request, body: NewSession, parts: Parts, who: Who) -> SessionOut:
    """Begin a conversation about one or several bases."""
    info = await sessions.create(
        parts, who, base_ids=body.bases, title=body.title, language=wanted_language(request)
    )
    return SessionOut(**_session(info, await answers.visible_bases(parts, who)))


@router.get("/sessions")
async def list_sessions(
    parts: Parts, who: Who, search: str = "", limit: Limit = 50, offset: Offset = 0
) -> Page[SessionOut]:
    """Conversations, pinned ones first, then the latest used; `search` looks into titles."""
    names = await answers.visible_bases(parts, who)
    found, total = await sessions.listing(
        await parts.database(), who, search=search, limit=limit, offset=offset
    )
    items = [SessionOut(**_session(info, names)) for info in found]
    return Page[SessionOut](items=items, total=total, limit=limit, offset=offset)


@router.get("/sessions/{session_id}")
async def show_session(
    session_id: str,
    parts: Parts,
    who: Who,
    limit: Limit = 50,
    before: Annotated[int | None, Query(ge=1, le=2_147_483_647)] = None,
) -> SessionDetail:
    """A conversation with its latest messages; `before` a `seq` for those before it."""
    database = await parts.database()
    info = await sessions.one(database, who, session_id)
    names = await answers.visible_bases(parts, who)
    stored = await sessions.messages(database, who, session_id, limit=limit, before=before)
    items = [MessageOut.model_validate(message) for message in stored]
    return SessionDetail(**_session(info, names), items=items)


@router.patch("/sessions/{session_id}")
async def change_session(session_id: str, body: SessionChange, parts: Parts, who: Who) -> SessionOut:
    """Rename, pin, or change the bases."""
    info = await sessions.change(
        parts,
        who,
        session_id,
        title=body.title,
        pinned=body.pinned,
        base_ids=body.bases,
        every_base="bases" in body.model_fields_set and body.bases is None,
    )
    return SessionOut(**_session(info, await answers.visible_bases(parts, who)))


@router.delete("/sessions/{session_id}", status_code=204)
async def delete_session(session_id: str, parts: Parts, who: Who) -> None:
    """Delete a conversation with all its messages."""
    await sessions.delete(await parts.database(), who, session_id)


@router.get(
    "/sessions/{session_id}/export",
    response_class=Response,
    responses={200: {"content": {"text/markdown": {"schema": {"type": "string"}}}}},
)
async def export_session(request: Request, session_id: str, parts: Parts, who: Who) -> Response:
    """A conversation as a Markdown file."""
    database = await parts.database()
    info = await sessions.one(database, who, session_id)
    stored = await sessions.messages(database, who, session_id, limit=MAX_EXPORTED)
    text = transcript(info, stored, wanted_language(request))
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(info.title, safe='')}.md"}
    return Response(text, media_type="text/markdown; charset=utf-8", headers=headers)


# --- messages ------------------------------------------------------------------------


@router.get("/sessions/{session_id}/messages/{message_id}")
async def show_message(session_id: str, message_id: str, parts: Parts, who: Who) -> MessageOut:
    """One message; the passages it was written from have the text that stands there now."""
    message = await sessions.stored_message(await parts.database(), who, session_id, message_id)
    names = await answers.visible_bases(parts, who)
    chunk_ids = [item["chunk_id"] for item in message.sources if not item.get("removed")]
    hits = await (await parts.store()).fetch(chunk_ids)
    texts = {hit.chunk.chunk_id: hit.chunk.text for hit in hits if hit.base_id in names}
    sources = [shown(item, names, texts) for item in message.sources]
    return MessageOut.model_validate(replace(message, sources=sources))


@router.post("/sessions/{session_id}/messages")
async def send_message(
    request: Request, session_id: str, body: NewQuestion, parts: Parts, who: Who
) -> Replied:
    """Ask in a conversation; the answer, whole. When the client goes away it stops and is kept."""
    return await _replied(request, parts, *await _asked(parts, who, session_id, body))


@router.post("/sessions/{session_id}/messages/stream", response_class=StreamingResponse, responses=STREAM)
async def stream_message(
    request: Request, session_id: str, body: NewQuestion, parts: Parts, who: Who
) -> EventStream:
    """Ask in a conversation; the answer as it is being written."""
    return _streamed(request, parts, *await _asked(parts, who, session_id, body))


@router.post("/sessions/{session_id}/messages/{message_id}/regenerate")
async def regenerate_message(
    request: Request, session_id: str, message_id: str, parts: Parts, who: Who, body: Anew = ANEW
) -> Replied:
    """A new answer in place of this one, whole."""
    return await _replied(request, parts, *await _again(parts, who, session_id, message_id, body))


@router.post(
    "/sessions/{session_id}/messages/{message_id}/regenerate/stream",
    response_class=StreamingResponse,
    responses=STREAM,
)
async def regenerate_message_stream(
    request: Request, session_id: str, message_id: str, parts: Parts, who: Who, body: Anew = ANEW
) -> EventStream:
    """A new answer in place of this one, as it is being written."""
    return _streamed(request, parts, *await _again(parts, who, session_id, message_id, body))


@router.post("/sessions/{session_id}/messages/{message_id}/stop", status_code=202)
async def stop_message(session_id: str, message_id: str, parts: Parts, who: Who) -> MessageOut:
    """Stop an answer that is being written, within a second; what was said is kept as `partial`."""
    database = await parts.database()
    await turns.stop(database, who, session_id, message_id)
    return MessageOut.model_validate(await sessions.stored_message(database, who, session_id, message_id))


@router.put("/sessions/{session_id}/messages/{message_id}/feedback")
async def rate_message(session_id: str, message_id: str, body: Rating, parts: Parts, who: Who) -> MessageOut:
    """Say what an answer was worth."""
    message = await sessions.set_feedback(
        await parts.database(), who, session_id, message_id, rating=body.rating, text=body.text
    )
    return MessageOut.model_validate(message)


@router.get("/feedback")
async def list_feedback(
    parts: Parts,
    who: Who,
    rating: Annotated[int | None, Query(ge=-1, le=1)] = None,
    limit: Limit = 50,
    offset: Offset = 0,
) -> Page[FeedbackOut]:
    """Answers that people rated, with their questions, to see what to mend. For admins of every base."""
    database = await parts.database()
    found, total = await sessions.feedback(database, who, rating=rating, limit=limit, offset=offset)
    items = [FeedbackOut.model_validate(item) for item in found]
    return Page[FeedbackOut](items=items, total=total, limit=limit, offset=offset)


async def _asked(parts: Parts, who: Who, session_id: str, body: NewQuestion) -> tuple[Turn, Question]:
    return await turns.ask(parts, who, session_id, body.question, filter=body.filter, top_k=body.top_k)


async def _again(
    parts: Parts, who: Who, session_id: str, message_id: str, body: Anew
) -> tuple[Turn, Question]:
    return await turns.ask_again(parts, who, session_id, message_id, filter=body.filter, top_k=body.top_k)


async def _replied(request: Request, parts: Parts, place: Turn, question: Question) -> Replied:
    hits, ending = await whole(request, lambda emit: turns.write(parts, place, question, emit))
    return Replied(**ended(ending, hits, question.names), **_about(place))


def _streamed(request: Request, parts: Parts, place: Turn, question: Question) -> EventStream:
    return streamed(
        request, question, _about(place), Replied, lambda emit: turns.write(parts, place, question, emit)
    )


def _about(place: Turn) -> dict[str, Any]:
    return {
        "session_id": place.session_id,
        "message_id": place.message_id,
        "question_id": place.question_id,
        "seq": place.seq,
    }
