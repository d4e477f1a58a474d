"""`/api/bases`: made, listed, described, set up, counted, deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field, StrictInt

from ragstone.kb import catalog, removal, statistics
from ragstone.kb.api.dependencies import Parts, Who
from ragstone.kb.api.models import NOT_BLANK, Limit, Offset, Page, RequestBody
from ragstone.kb.bases import MAX_NAME
from ragstone.kb.catalog import MAX_DESCRIPTION, BaseChanges, BaseDetails, BaseSort
from ragstone.kb.uploads import MAX_CATEGORY
from ragstone.types import DeletionReport

router = APIRouter(prefix="/api", tags=["bases"])

BaseId = Annotated[str, Path(max_length=64)]
Search = Annotated[str | None, Query(max_length=200, description="Words in the name, in any case.")]
OfCategory = Annotated[
    str | None, Query(max_length=MAX_CATEGORY, description="Only this category; empty: the uncategorised.")
]
Since = Annotated[
    int | None, Query(ge=1, le=3_650, description="Only questions of so many days; else all of them.")
]


class BaseSettings(RequestBody):
    """What the base has otherwise than the server; null is the server's. Sizes in tokens."""

    chunk_size: StrictInt | None = Field(default=None, ge=1, le=1_000_000, examples=[300])
    chunk_overlap: StrictInt | None = Field(default=None, ge=0, le=1_000_000, examples=[30])
    chunk_parent: StrictInt | None = Field(default=None, ge=0, le=1_000_000)
    top_k: StrictInt | None = Field(default=None, ge=1, le=1_000, examples=[8])
    min_score: float | None = Field(default=None, ge=0, le=1)


class NewBase(RequestBody):
    name: str = Field(json_schema_extra=NOT_BLANK, max_length=MAX_NAME, examples=["Staff handbook"])
    description: str = Field(default="", max_length=MAX_DESCRIPTION, examples=["What holds for everybody."])
    category: str = Field(default="", max_length=MAX_CATEGORY, examples=["HR"])
    settings: BaseSettings = Field(default_factory=BaseSettings)


class BaseChange(RequestBody):
    """Only what is given is changed. Settings of chunks take effect by POST /api/bases/{base_id}/reindex."""

    name: str | None = Field(default=None, max_length=MAX_NAME, examples=["Staff handbook"])
    description: str | None = Field(default=None, max_length=MAX_DESCRIPTION)
    category: str | None = Field(default=None, max_length=MAX_CATEGORY, examples=["HR"])
    settings: BaseSettings | None = None


class BaseView(BaseModel):
    """A base and what it holds."""

    base_id: str
    name: str
    description: str
    category: str
    settings: BaseSettings
    model: str | None = Field(description="The embedding model; null until a document was read.")
    documents: int = Field(description="All of them, whatever their state.")
    pending: int
    processing: int
    ready: int
    failed: int
    chunks: int
    size: int = Field(description="Bytes of originals.")
    questions: int
    accesses: int
    created_at: datetime


class Deleted(BaseModel):
    """What was deleted: rows by table, `messages` being stored answers that quoted it."""

    document_ids: list[str]
    rows: dict[str, int] = Field(examples=[{"documents": 1, "chunks": 12, "vectors": 12, "blobs": 1}])


class StatisticsView(BaseModel):
    """Documents as they are now, questions by how they ended; milliseconds to the first word and the end."""

    bases: int
    documents: int
    pending: int
    processing: int
    ready: int
    failed: int
    chunks: int
    size: int = Field(description="Bytes of originals.")
    accesses: int
    categories: dict[str, int] = Field(description="Documents by category; empty: the uncategorised.")
    questions: int
    answered: int
    refused: int = Field(description="Nothing was found that answers them.")
    interrupted: int
    broken: int
    first_ms_p50: float | None
    first_ms_p95: float | None
    total_ms_p50: float | None
    total_ms_p95: float | None


@router.get("/bases")
async def list_bases(
    parts: Parts,
    who: Who,
    limit: Limit = 50,
    offset: Offset = 0,
    sort: BaseSort = "name",
    descending: bool = False,
    search: Search = None,
    category: OfCategory = None,
) -> Page[BaseView]:
    """The bases that the key may see."""
    found, total = await catalog.listing(
        await parts.database(),
        who,
        limit=limit,
        offset=offset,
        sort=sort,
        descending=descending,
        search=search,
        category=category,
    )
    return Page(items=[_view(item) for item in found], total=total, limit=limit, offset=offset)


@router.post("/bases", status_code=201)
async def create_base(body: NewBase, parts: Parts, who: Who) -> BaseView:
    """Make a base."""
    changes = BaseChanges(
        description=body.description, category=body.category, settings=_given(body.settings)
    )
    database = await parts.database()
    return _view(await catalog.create(database, who, parts.settings, name=body.name, changes=changes))


@router.get("/bases/{base_id}")
async def show_base(base_id: BaseId, parts: Parts, who: Who) -> BaseView:
    """One base."""
    return _view(await catalog.opened(await parts.database(), who, base_id))


@router.patch("/bases/{base_id}")
async def change_base(base_id: BaseId, body: BaseChange, parts: Parts, who: Who) -> BaseView:
    """Rename, describe, set up."""
    changes = BaseChanges(
        name=body.name,
        description=body.description,
        category=body.category,
        settings=None if body.settings is None else _given(body.settings),
    )
    return _view(await catalog.change(await parts.database(), who, parts.settings, base_id, changes))


@router.delete("/bases/{base_id}")
async def delete_base(base_id: BaseId, parts: Parts, who: Who) -> Deleted:
    """Delete a base with everything in it."""
    return deleted(await removal.remove_base(parts, who, base_id))


@router.get("/bases/{base_id}/stats")
async def base_statistics(base_id: BaseId, parts: Parts, who: Who, days: Since = None) -> StatisticsView:
    """What is counted in one base."""
    found = await statistics.counted(await parts.database(), who, base_id=base_id, since=_since(days))
    return StatisticsView.model_validate(found, from_attributes=True)


@router.get("/stats")
async def all_statistics(parts: Parts, who: Who, days: Since = None) -> StatisticsView:
    """What is counted in all bases that the key may see."""
    found = await statistics.counted(await parts.database(), who, since=_since(days))
    return StatisticsView.model_validate(found, from_attributes=True)


def deleted(report: DeletionReport) -> Deleted:
    rows = {**dict.fromkeys(removal.TABLES, 0), **report.rows}
    return Deleted(document_ids=list(report.document_ids), rows=rows)


def _view(details: BaseDetails) -> BaseView:
    return BaseView.model_validate(details, from_attributes=True)


def _given(settings: BaseSettings) -> dict[str, Any]:
    """What was said, null too: it gives a setting back to the server."""
    return settings.model_dump(exclude_unset=True)


def _since(days: int | None) -> datetime | None:
    return None if days is None else datetime.now(UTC) - timedelta(days=days)
