"""`/api/jobs`: what is being indexed, what failed for good, and trying it again."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field

from ragstone.kb import jobs
from ragstone.kb.api.bases import BaseId
from ragstone.kb.api.dependencies import Parts, Who
from ragstone.kb.api.models import Limit, Offset, Page, Said, said
from ragstone.kb.api.problems import wanted_language
from ragstone.kb.jobs import JobInfo, JobKind, JobState
from ragstone.messages import Language

router = APIRouter(prefix="/api", tags=["jobs"])

JobId = Annotated[str, Path(max_length=64)]
OfBase = Annotated[str | None, Query(max_length=64, description="Only jobs of this base.")]


class JobView(BaseModel):
    """Work on a file (`index`) or on a whole base (`reindex`)."""

    job_id: str
    kind: JobKind
    base_id: str
    document_id: str | None
    name: str | None = Field(description="The file's name.")
    state: JobState = Field(description="`dead`: failed for good, until it is tried again.")
    stage: str = Field(description="load, parse, embed; of a reindex: build.", examples=["embed"])
    progress: float = Field(description="Share of the stage that is done, 0 to 1.")
    attempts: int
    error: Said | None = Field(
        description="Why an attempt failed; of a queued job the last one, which is followed by another."
    )
    run_after: datetime = Field(description="A queued job is not begun before.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class Queued(BaseModel):
    """Jobs that were queued anew."""

    job_ids: list[str]


@router.get("/jobs")
async def list_jobs(
    request: Request,
    parts: Parts,
    who: Who,
    base_id: OfBase = None,
    state: Annotated[JobState | None, Query(description="`dead` for dead letters.")] = None,
    limit: Limit = 50,
    offset: Offset = 0,
) -> Page[JobView]:
    """Jobs of the bases the key may see, the newest first."""
    found, total = await jobs.listing(
        await parts.database(), who, base_id=base_id, state=state, limit=limit, offset=offset
    )
    items = [_view(job, wanted_language(request)) for job in found]
    return Page(items=items, total=total, limit=limit, offset=offset)


@router.get("/jobs/{job_id}")
async def show_job(request: Request, parts: Parts, who: Who, job_id: JobId) -> JobView:
    """How far one job is."""
    return _view(await jobs.one(await parts.database(), who, job_id), wanted_language(request))


@router.post("/jobs/{job_id}/cancel")
async def cancel_job(request: Request, parts: Parts, who: Who, job_id: JobId) -> JobView:
    """Stop a job that is queued or running. Its file is failed; what answered before goes on."""
    return _view(await jobs.cancel(await parts.database(), who, job_id), wanted_language(request))


@router.post("/jobs/{job_id}/replay", status_code=202)
async def replay_job(parts: Parts, who: Who, job_id: JobId) -> Queued:
    """Try one job again that is dead or was cancelled."""
    return await _queued(parts, await jobs.replay(await parts.database(), who, job_id=job_id))


@router.post("/jobs/replay", status_code=202)
async def replay_jobs(parts: Parts, who: Who, base_id: OfBase = None) -> Queued:
    """Try every dead job again: those of a base, or of all bases the key may see."""
    return await _queued(parts, await jobs.replay(await parts.database(), who, base_id=base_id))


@router.post("/bases/{base_id}/reindex", status_code=202)
async def reindex_base(request: Request, parts: Parts, who: Who, base_id: BaseId) -> JobView:
    """Split and embed a base anew as its settings now say; it answers meanwhile as before."""
    job = await jobs.reindex(await parts.database(), who, base_id)
    await _queued(parts, [job.job_id])
    return _view(job, wanted_language(request))


async def _queued(parts: Parts, job_ids: list[str]) -> Queued:
    if job_ids:
        await (await parts.wakeup()).notify(job_ids)
    return Queued(job_ids=job_ids)


def _view(job: JobInfo, language: Language) -> JobView:
    fields = {name: getattr(job, name) for name in JobView.model_fields if name != "error"}
    error = None if job.error_code is None else said(job.error_code, job.error_values, language)
    return JobView(error=error, **fields)
