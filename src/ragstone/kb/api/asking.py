"""Ask and search, without a session: `/api/ask`, `/api/ask/stream`, `/api/search`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field, StrictInt
from starlette.responses import StreamingResponse

from ragstone.errors import RagstoneError
from ragstone.highlight import highlights
from ragstone.kb import answers
from ragstone.kb.answers import Emit, Ending, Question
from ragstone.kb.api.answered import Ended, Found, HitOut, ended, sources_data, stage_data, timings
from ragstone.kb.api.dependencies import Parts, Who
from ragstone.kb.api.events import EmitEvent, EventStream, problem_data, while_heard
from ragstone.kb.api.models import NOT_BLANK, NOT_EMPTY, PlaceView, RequestBody
from ragstone.types import Delta, Event, Hit, SearchResult, Sources, StageDone

_LOGGER = logging.getLogger(__name__)

router = APIRouter(prefix="/api", tags=["ask"])

STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": (
            "Server-sent events with JSON data and ids: `stage` (the first one at once), `sources`, `delta` "
            '({"text"}), and last `done` (as the answer without a stream) or `error` (a problem). '
            "Joined, the deltas are what was said; `answer` of `done` is the text to keep."
        ),
        "content": {
            "text/event-stream": {
                # As OpenAPI 3.2 describes one event; 3.1 has no word for it.
                "itemSchema": {
                    "type": "object",
                    "required": ["event", "data", "id"],
                    "properties": {
                        "event": {"enum": ["stage", "sources", "delta", "done", "error"]},
                        "data": {"type": "string", "contentMediaType": "application/json"},
                        "id": {"type": "string"},
                    },
                },
                "example": 'event: delta\ndata: {"text":"At 22:15 [1]."}\nid: 7\n\n',
            }
        },
    }
}


class Ask(RequestBody):
    """A question to bases."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"question": "When does the last ferry leave?", "bases": None}]},
    )

    question: str = Field(json_schema_extra=NOT_BLANK, description="Up to 8,000 characters, not blank.")
    bases: list[str] | None = Field(
        default=None, json_schema_extra=NOT_EMPTY, description="Ids; null for every base the key may see."
    )
    filter: str | None = Field(default=None, description="Such as `year >= 2020 and lang == 'en'`.")
    top_k: StrictInt | None = Field(
        default=None, description="Passages the answer is written from, 1 to 1,000."
    )


class Search(RequestBody):
    """A search in bases."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "ferry timetable", "mode": "hybrid", "top_k": 5}]},
    )

    query: str = Field(json_schema_extra=NOT_BLANK, description="Up to 8,000 characters, not blank.")
    bases: list[str] | None = Field(
        default=None, json_schema_extra=NOT_EMPTY, description="Ids; null for every base the key may see."
    )
    filter: str | None = Field(default=None, description="Such as `year >= 2020 and lang == 'en'`.")
    mode: Literal["hybrid", "vector", "text"] = "hybrid"
    top_k: StrictInt | None = Field(default=None, description="1 to 1,000.")
    min_score: float | None = Field(default=None, description="On the scale of the mode's scores.")
    rerank: bool | None = Field(default=None, description="By default where a reranker is configured.")
    highlight: bool = Field(default=False, description="Say where words of the question stand.")


@router.post("/search")
async def search(body: Search, parts: Parts, who: Who) -> Found:
    """The best passages, without an answer."""
    question = await answers.prepare(
        parts,
        who,
        body.query,
        base_ids=body.bases,
        filter=body.filter,
        top_k=body.top_k,
    )
    result = await answers.search(
        parts, question, mode=body.mode, min_score=body.min_score, rerank=body.rerank
    )
    files = await answers.file_names(parts, result.hits)
    return _found(body, result, question.names, files)


def _found(body: Search, result: SearchResult, names: Mapping[str, str], files: Mapping[str, str]) -> Found:
    return Found(
        query=body.query,
        hits=[_hit(body, rank, hit, names, files) for rank, hit in enumerate(result.hits, 1)],
        timings_ms=timings((step.stage, step.seconds) for step in result.trace),
        degraded=list(result.degraded),
    )


def _hit(body: Search, rank: int, hit: Hit, names: Mapping[str, str], files: Mapping[str, str]) -> HitOut:
    chunk, marks = hit.chunk, None
    if body.highlight:
        marks = [
            (chunk.start + start, chunk.start + end) for start, end in highlights(body.query, chunk.text)
        ]
    return HitOut(
        rank=rank,
        chunk_id=chunk.chunk_id,
        document_id=chunk.document_id,
        base_id=hit.base_id,
        base=names.get(hit.base_id, hit.base_id),
        title=hit.title,
        name=files.get(chunk.document_id, ""),
        uri=hit.uri,
        page=chunk.page,
        page_end=chunk.page_end,
        place=PlaceView.model_validate(chunk.place(), from_attributes=True),
        start=chunk.start,
        end=chunk.end,
        text=chunk.text,
        metadata=dict(chunk.metadata),
        scores={score.scale: score.value for score in hit.scores},
        highlights=marks,
    )


@router.post("/ask")
async def ask(request: Request, body: Ask, parts: Parts, who: Who) -> Ended:
    """Answer a question, whole. When the client goes away the answer stops."""
    question = await _question(body, parts, who)
    hits, ending = await whole(request, lambda emit: answers.answer(parts, question, emit))
    return Ended.model_validate(ended(ending, hits, question.names))


@router.post("/ask/stream", response_class=StreamingResponse, responses=STREAM)
async def ask_stream(request: Request, body: Ask, parts: Parts, who: Who) -> EventStream:
    """Answer a question as it is being written. When the client goes away the answer stops."""
    question = await _question(body, parts, who)
    return streamed(request, question, {}, Ended, lambda emit: answers.answer(parts, question, emit))


async def _question(body: Ask, parts: Parts, who: Who) -> Question:
    return await answers.prepare(
        parts, who, body.question, base_ids=body.bases, filter=body.filter, top_k=body.top_k
    )


Write = Callable[[Emit], Awaitable[Ending]]


async def whole(request: Request, write: Write) -> tuple[Sequence[Hit], Ending]:
    """The passages and the ending of an answer; raises what it failed with."""
    passages: list[Hit] = []

    async def emit(event: Event) -> None:
        if isinstance(event, Sources):
            passages[:] = event.hits

    ending = await while_heard(request, lambda _: write(emit))
    if ending.error is not None:
        raise ending.error
    return passages, ending


def streamed(
    request: Request, question: Question, about: Mapping[str, Any], shape: type[Ended], write: Write
) -> EventStream:
    """The events of an answer. `about` is told with the first event, and with the last, a `shape`."""

    async def produce(emit: EmitEvent) -> None:
        passages: list[Hit] = []

        async def pass_on(event: Event) -> None:
            match event:
                case StageDone(step=step):
                    await emit("stage", stage_data(step))
                case Sources(hits=hits):
                    passages[:] = hits
                    await emit("sources", {"sources": sources_data(hits, question.names)})
                case Delta(text=text):
                    await emit("delta", {"text": text})
                case _:
                    pass

        # At once: proxies and people learn that somebody is at work (row W23).
        await emit("stage", {"stage": "begin", **about})
        try:
            ending = await write(pass_on)
        except Exception as error:  # noqa: BLE001 (the edge: the response has begun)
            await emit("error", {**_problem(request, error), **about})
            return
        if ending.error is not None:
            await emit("error", {**_problem(request, ending.error), **about, "text": ending.text})
            return
        done = shape.model_validate({**ended(ending, passages, question.names), **about})
        await emit("done", done.model_dump(mode="json"))

    return EventStream(request, produce)


def _problem(request: Request, error: Exception) -> dict[str, object]:
    if not isinstance(error, RagstoneError):
        facts = {"request_id": getattr(request.state, "request_id", "")}
        _LOGGER.error("answer failed", extra=facts, exc_info=error)
        error = RagstoneError("session.internal")
    return problem_data(request, error)
