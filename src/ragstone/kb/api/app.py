"""The ASGI application: routers, errors and what lives as long as it does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from fastapi import FastAPI

from ragstone.errors import RagstoneError
from ragstone.kb.api import health, jobs
from ragstone.kb.api.problems import on_error
from ragstone.kb.bootstrap import App

ROUTERS = (health.router, jobs.router)


def create_app(
    parts: App, *, beside: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
) -> FastAPI:
    """The API over `parts`, which it opens when it starts and closes when it stops.

    What is `beside` it lives as long as they do.
    """

    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncGenerator[None]:
        try:
            await parts.store()
            async with beside():
                yield
        finally:
            await parts.aclose()

    api = FastAPI(title="Ragstone", lifespan=lifespan)
    api.state.ragstone = parts
    api.add_exception_handler(RagstoneError, on_error)
    for router in ROUTERS:
        api.include_router(router)
    return api
