"""The ASGI application: routers, errors and what lives as long as it does."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from ragstone.errors import RagstoneError
from ragstone.kb import turns
from ragstone.kb.api import asking, health, sessions
from ragstone.kb.api.events import RunningAnswers
from ragstone.kb.api.problems import on_error
from ragstone.kb.bootstrap import App

ROUTERS = (health.router, asking.router, sessions.router)


def create_app(parts: App) -> FastAPI:
    """The API over `parts`, which it opens when it starts and closes when it stops."""

    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncGenerator[None]:
        try:
            await parts.store()
            async with turns.looking_after(await parts.database()):
                yield
        finally:
            await parts.aclose()

    api = FastAPI(title="Ragstone", lifespan=lifespan)
    api.state.ragstone = parts
    api.state.running = RunningAnswers()
    api.add_exception_handler(RagstoneError, on_error)
    for router in ROUTERS:
        api.include_router(router)
    return api
