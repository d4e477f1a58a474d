"""Documents: listed, read, edited, tried again, deleted. Their uploads and originals: uploads.py."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import AwareDatetime, BaseModel, Field

from ragstone.kb import files, passages, removal
from ragstone.kb.api.bases import BaseId, Deleted, OfCategory, Search, deleted
from ragstone.kb.api.dependencies import Parts, Who
from ragstone.kb.api.models import Limit, Offset, Page, PlaceView, RequestBody, Said, said
from ragstone.kb.api.problems import wanted_language
from ragstone.kb.files import Failure, FileInfo, FileSort, FileStatus
from ragstone.kb.uploads import MAX_CATEGORY, MAX_NAME_BYTES
from ragstone.messages import Language

router = APIRouter(prefix="/api", tags=["documents"])

DocumentId = Annotated[str, Path(max_length=200)]
Scalar = str | int | float | bool | AwareDatetime
MetadataView = dict[str, str | bool | int | float | datetime | list[str | bool | int | float | datetime]]
MOST_CHARACTERS = 1_000_000


class MemberFailure(Said):
    """A member of an archive or mail that could not be read."""

    uri: str
    name: str


class ProgressView(BaseModel):
    """What is being done: `share` of `stage` is; after a failed attempt the next begins at `run_after`."""

    state: str = Field(examples=["running"])
    stage: str = Field(examples=["embed"])
    share: float
    attempts: int
    run_after: datetime


class DocumentView(BaseModel):
    """A document without its text."""

    document_id: str
    base_id: str
    uri: str
    container_uri: str | None = Field(description="Of a member: the archive or mail it was unpacked from.")
    name: str
    title: str
    category: str
    media_type: str
    size: int = Field(description="Bytes of the original; 0 where none is kept.")
    sha256: str | None = Field(description="Of the original.")
    version: int
    status: FileStatus
    error: Said | None = Field(description="Why it failed, and what to do.")
    failures: list[MemberFailure]
    progress: ProgressView | None
    warnings: list[Said]
    metadata: MetadataView = Field(description="What people said of it, and what the file says itself.")
    accesses: int
    chunks: int
    pages: int
    searchable: bool = Field(
        description="Whether a version of it is found; an earlier one is until it is ready."
    )
    created_at: datetime
    updated_at: datetime


class DocumentChange(RequestBody):
    """Only what is given is changed. Metadata takes the place of what was said before."""

    name: str | None = Field(default=None, max_length=MAX_NAME_BYTES, examples=["Travel expenses.pdf"])
    category: str | None = Field(default=None, max_length=MAX_CATEGORY, examples=["HR"])
    metadata: dict[str, Scalar | list[Scalar] | None] | None = Field(
        default=None, examples=[{"year": 2024, "tags": ["travel"]}]
    )


class DocumentIds(RequestBody):
    document_ids: list[Annotated[str, Field(max_length=200)]] = Field(
        min_length=1, max_length=1_000, examples=[["e22e2049d3153122fbbdb1a5"]]
    )


class QueuedDocuments(BaseModel):
    document_ids: list[str]


class Span(BaseModel):
    start: int
    end: int


class PageView(Span):
    number: int


class HeadingView(Span):
    path: list[str]


class TextView(Span):
    """Characters `start` to `end` of the text that is searched, and the structure of the whole."""

    text: str
    characters: int
    pages: list[PageView]
    headings: list[HeadingView]


class BoxView(Span):
    """Where characters stand on a page: in points (1/72 inch) from its upper left corner."""

    page: int
    x0: float
    y0: float
    x1: float
    y1: float


class ChunkView(Span):
    """A passage as it is searched; `context` was indexed in front of it."""

    chunk_id: str
    index: int
    text: str
    context: str
    page: int | None
    page_end: int | None
    place: PlaceView
    headings: list[str]
    metadata: MetadataView
    boxes: list[BoxView]
    enabled: bool = Field(description="Whether it is found.")


class ChunkChange(RequestBody):
    enabled: bool = Field(examples=[False])


@router.get("/bases/{base_id}/documents")
async def list_documents(
    base_id: BaseId,
    request: Request,
    parts: Parts,
    who: Who,
    limit: Limit = 50,
    offset: Offset = 0,
    sort: FileSort = "created",
    descending: bool = True,
    search: Search = None,
    category: OfCategory = None,
    status: Annotated[list[FileStatus] | None, Query(description="Only these states.")] = None,
) -> Page[DocumentView]:
    """Documents of a base, the latest first; also those that wait, and those that failed."""
    found, total = await files.listing(
        await parts.database(),
        who,
        base_id,
        limit=limit,
        offset=offset,
        sort=sort,
        descending=descending,
        search=search,
        category=category,
        statuses=status,
    )
    items = [view(info, wanted_language(request)) for info in found]
    return Page(items=items, total=total, limit=limit, offset=offset)


@router.post("/bases/{base_id}/documents/retry", status_code=202)
async def retry_failed(base_id: BaseId, parts: Parts, who: Who) -> QueuedDocuments:
    """Read every failed document of a base again."""
    document_ids = await files.retry_failed(await parts.database(), who, base_id)
    if document_ids:
        await (await parts.wakeup()).notify()
    return QueuedDocuments(document_ids=document_ids)


@router.post("/bases/{base_id}/documents/delete")
async def delete_documents(base_id: BaseId, body: DocumentIds, parts: Parts, who: Who) -> Deleted:
    """Delete several documents; ids that are not there are passed over."""
    return deleted(await removal.remove(parts, who, body.document_ids, base_id=base_id))


@router.get("/documents/{document_id}")
async def show_document(document_id: DocumentId, request: Request, parts: Parts, who: Who) -> DocumentView:
    """One document, and how far its reading is."""
    return view(await files.one(await parts.database(), who, document_id), wanted_language(request))


@router.patch("/documents/{document_id}")
async def change_document(
    document_id: DocumentId, body: DocumentChange, request: Request, parts: Parts, who: Who
) -> DocumentView:
    """Rename, categorise, give metadata; filters see it at once."""
    info = await files.edit(
        await parts.database(),
        who,
        document_id,
        name=body.name,
        category=body.category,
        metadata=body.metadata,
    )
    if info.progress is not None:  # a job that begins anew
        await (await parts.wakeup()).notify()
    return view(info, wanted_language(request))


@router.post("/documents/{document_id}/retry", status_code=202)
async def retry_document(document_id: DocumentId, request: Request, parts: Parts, who: Who) -> DocumentView:
    """Read a failed document again."""
    info = await files.retry(await parts.database(), who, document_id)
    await (await parts.wakeup()).notify()
    return view(info, wanted_language(request))


@router.delete("/documents/{document_id}")
async def delete_document(document_id: DocumentId, parts: Parts, who: Who) -> Deleted:
    """Delete a document with all that belongs to it, also while it is being read."""
    who.require("editor")
    await files.one(await parts.database(), who, document_id)
    return deleted(await removal.remove(parts, who, [document_id]))


@router.get("/documents/{document_id}/text")
async def show_text(
    document_id: DocumentId,
    parts: Parts,
    who: Who,
    start: Annotated[int, Query(ge=0, le=1_000_000_000)] = 0,
    length: Annotated[int, Query(ge=0, le=MOST_CHARACTERS)] = 100_000,
) -> TextView:
    """The text that is searched, from character `start`."""
    found = await files.text(await parts.database(), who, document_id, start=start, length=length)
    return TextView.model_validate(found, from_attributes=True)


@router.get("/documents/{document_id}/chunks")
async def list_chunks(
    document_id: DocumentId, parts: Parts, who: Who, limit: Limit = 50, offset: Offset = 0
) -> Page[ChunkView]:
    """The passages of a document in the order of its text."""
    found, total = await passages.listing(
        await parts.database(), who, document_id, limit=limit, offset=offset
    )
    items = [ChunkView.model_validate(item, from_attributes=True) for item in found]
    return Page(items=items, total=total, limit=limit, offset=offset)


@router.patch("/documents/{document_id}/chunks/{chunk_id}", status_code=204)
async def change_chunk(
    document_id: DocumentId,
    chunk_id: Annotated[str, Path(max_length=200)],
    body: ChunkChange,
    parts: Parts,
    who: Who,
) -> None:
    """Let a passage be found, or not any more."""
    await passages.enable(parts, who, document_id, chunk_id, body.enabled)


def view(info: FileInfo, language: Language) -> DocumentView:
    """The document with its sentences in `language`."""
    special = ("sha256", "error", "failures", "progress", "warnings", "metadata")
    plain = {name: getattr(info, name) for name in DocumentView.model_fields if name not in special}
    progress = info.progress
    return DocumentView(
        **plain,
        sha256=info.blob_hash,
        error=None if info.error is None else said(info.error.code, info.error.values, language),
        failures=[_member(item, language) for item in info.failures],
        progress=None if progress is None else ProgressView.model_validate(progress, from_attributes=True),
        warnings=[said(remark.key, remark.values, language) for remark in info.warnings],
        metadata={
            key: list(value) if isinstance(value, tuple) else value for key, value in info.metadata.items()
        },
    )


def _member(failure: Failure, language: Language) -> MemberFailure:
    sentence = said(failure.code, failure.values, language)
    return MemberFailure(uri=failure.uri, name=failure.name, **sentence.model_dump())
