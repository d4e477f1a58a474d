"""`/healthz`: the process answers. `/readyz`: what it needs answers too. Neither asks for a key."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from ragstone.kb.readiness import State, Status

router = APIRouter(tags=["health"])


class Alive(BaseModel):
    status: Literal["ok"]


class PartHealth(BaseModel):
    state: State
    code: str | None = Field(description="What is wrong, such as `postgres.unreachable`.")


class Ready(BaseModel):
    """`degraded`: questions are answered, but a part that other things need does not work."""

    status: Status
    parts: dict[str, PartHealth] = Field(
        examples=[{"database": {"state": "ok", "code": None}, "models": {"state": "ok", "code": None}}]
    )


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz")
async def show_health() -> Alive:
    """The process answers."""
    return Alive(status="ok")


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", responses={503: {"model": Ready, "description": "Send nobody here yet."}})
async def show_readiness(request: Request, response: Response) -> Ready:
    """Database, wake-ups, blobs and models, each with its state."""
    found = await request.app.state.probe()
    if found.status == "unready":
        response.status_code = 503
    return Ready.model_validate(found, from_attributes=True)
