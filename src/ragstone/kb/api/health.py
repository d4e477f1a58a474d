"""`/healthz`: the process answers. `/readyz`: what it needs answers too."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def alive() -> dict[str, str]:
    return {"status": "ok"}
