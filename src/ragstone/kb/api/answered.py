"""Answers, passages and messages as the API gives them. Names are a contract: add, never rename."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ragstone.audit import needs_review
from ragstone.kb.answers import Ending, source_item
from ragstone.kb.api.models import PlaceView
from ragstone.kb.redaction import Item
from ragstone.types import Hit, Step


class Place(BaseModel):
    """A stretch of a document: `text[start:end]` of its parsed text, in code points.

    `removed`: the document was deleted since; title, uri and text are gone with it.
    """

    n: int = Field(description="The number that markers such as [1] in the answer name.")
    chunk_id: str
    document_id: str
    base_id: str
    title: str
    name: str = Field(default="", description="The name of its file, as people know it.")
    uri: str
    page: int | None
    page_end: int | None = None
    place: PlaceView = PlaceView()
    start: int
    end: int
    removed: bool = False


class CitationOut(Place):
    quote: str = Field(description="What the document says there, word for word.")


class SourceOut(Place):
    """A passage that the answer was written from."""

    base: str | None = Field(default=None, description="Name of the base.")
    text: str | None = Field(default=None, description="Null where it is not shown, or no longer there.")
    scores: dict[str, float] = Field(description="Scale to value; values of two scales are never compared.")


class Ended(BaseModel):
    """What an answer came to."""

    status: Literal["complete", "partial", "failed"]
    answer: str
    answered: bool | None = Field(description="False for a refusal; null for an answer that is not whole.")
    mode: str | None = Field(description="`model` or `extractive`.")
    citations: list[CitationOut]
    sources: list[SourceOut]
    degraded: list[str] = Field(description="Steps that could not be taken as configured.")
    needs_review: bool = Field(
        description="The audit found a fact that no cited passage holds, a marker of none, or no citation."
    )
    audit: dict[str, Any]
    usage: dict[str, int]
    timings_ms: dict[str, float]


class Replied(Ended):
    """The answer to a question of a session, as it is stored."""

    session_id: str
    message_id: str
    question_id: str
    seq: int


class HitOut(BaseModel):
    rank: int
    chunk_id: str
    document_id: str
    base_id: str
    base: str
    title: str
    name: str = Field(default="", description="The name of its file, as people know it.")
    uri: str
    page: int | None
    page_end: int | None
    place: PlaceView
    start: int
    end: int
    text: str
    metadata: dict[str, Any]
    scores: dict[str, float]
    highlights: list[tuple[int, int]] | None = Field(
        default=None, description="[start, end) of words of the question, as `start` and `end` of the hit."
    )


class Found(BaseModel):
    query: str
    hits: list[HitOut]
    timings_ms: dict[str, float]
    degraded: list[str]


class MessageOut(BaseModel):
    """A question or an answer of a session."""

    model_config = ConfigDict(from_attributes=True)

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
    citations: list[CitationOut]
    sources: list[SourceOut]
    trace: list[dict[str, Any]]
    degraded: list[str]
    audit: dict[str, Any]
    usage: dict[str, int]
    error_code: str | None
    feedback: int | None
    feedback_text: str
    created_at: datetime
    finished_at: datetime | None


def ended(ending: Ending, hits: Sequence[Hit], names: Mapping[str, str]) -> dict[str, Any]:
    """The fields of `Ended`; `hits` are the passages, for their text."""
    texts = {hit.chunk.chunk_id: hit.chunk.text for hit in hits}
    return {
        "status": ending.status,
        "answer": ending.text,
        "answered": ending.answered,
        "mode": ending.mode,
        "citations": ending.citations,
        "sources": [shown(item, names, texts) for item in ending.sources],
        "degraded": ending.degraded,
        "needs_review": needs_review(ending.audit),
        "audit": ending.audit,
        "usage": ending.usage,
        "timings_ms": timings((item["stage"], item["seconds"]) for item in ending.trace),
    }


def shown(item: Item, names: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, Any]:
    """A source with what is not stored with it."""
    return {**item, "base": names.get(item["base_id"]), "text": texts.get(item["chunk_id"])}


def sources_data(hits: Sequence[Hit], names: Mapping[str, str]) -> list[dict[str, Any]]:
    texts = {hit.chunk.chunk_id: hit.chunk.text for hit in hits}
    return [shown(source_item(n, hit), names, texts) for n, hit in enumerate(hits, 1)]


def stage_data(step: Step) -> dict[str, Any]:
    return {"stage": step.stage, "ms": round(step.seconds * 1_000, 3)}


def timings(steps: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Milliseconds by stage; a stage that ran several times counts together."""
    total: dict[str, float] = {}
    for stage, seconds in steps:
        total[stage] = total.get(stage, 0.0) + seconds * 1_000
    return {stage: round(milliseconds, 3) for stage, milliseconds in total.items()}
