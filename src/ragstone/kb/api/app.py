"""The ASGI application: routers, errors, the layers before them, and what lives as long as it does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from functools import partial
from importlib.metadata import version
from typing import Any

import anyio
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from ragstone.errors import RagstoneError
from ragstone.kb import orphans, redaction, turns
from ragstone.kb.api import (
    asking,
    audit,
    bases,
    documents,
    health,
    jobs,
    keys,
    openapi,
    sessions,
    uploads,
    welcome,
)
from ragstone.kb.api.body import Bodies
from ragstone.kb.api.door import Door
from ragstone.kb.api.edge import Edge
from ragstone.kb.api.events import RunningAnswers
from ragstone.kb.api.problems import on_error, on_http, on_invalid
from ragstone.kb.bootstrap import App
from ragstone.kb.readiness import Probe
from ragstone.kb.upkeep import repeated

ROUTERS = (
    health.router,
    bases.router,
    documents.router,
    uploads.router,
    asking.router,
    sessions.router,
    jobs.router,
    keys.router,
    audit.router,
    welcome.router,
)


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
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_warm, parts)
                for work, seconds, failed in await _upkeep(parts):
                    tasks.start_soon(partial(repeated, work, seconds, failed=failed))
                async with beside():
                    yield
                tasks.cancel_scope.cancel()
        finally:
            await parts.aclose()

    api = FastAPI(
        title="Ragstone",
        version=version("ragstone"),
        lifespan=lifespan,
        # Its pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=openapi.operation_id,
    )
    api.state.ragstone = parts
    api.state.running = RunningAnswers()
    api.state.probe = Probe(parts)
    api.add_exception_handler(RagstoneError, on_error)
    api.add_exception_handler(HTTPException, on_http)
    api.add_exception_handler(RequestValidationError, on_invalid)
    for router in ROUTERS:
        api.include_router(router)
    _layers(api, parts)
    made = openapi.document(api)

    def described() -> dict[str, Any]:
        return made

    api.openapi = described
    return api


def _layers(api: FastAPI, parts: App) -> None:
    """What stands before the routes; the last is the outermost."""
    origins = parts.settings.origins
    api.add_middleware(Bodies)
    api.add_middleware(Door, parts=parts, origins=origins)
    if origins:
        api.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "X-API-Key", "X-Request-ID"],
            expose_headers=["Content-Disposition", "Retry-After", "X-Request-ID"],
        )
    api.add_middleware(Edge)


async def _upkeep(parts: App) -> list[tuple[Callable[[], Awaitable[object]], float, str]]:
    """What other processes left unfinished, and deletions that others made."""
    database = await parts.database()

    async def sweep() -> None:
        await orphans.sweep(database, await parts.blobs())

    return [
        (partial(turns.repair, database), turns.REPAIR_S, "answers of dead processes not ended"),
        (redaction.NewDeletions(database), redaction.REDACT_S, "stored answers not redacted"),
        (sweep, orphans.SWEEP_S, "originals that nothing needs not dropped"),
    ]


async def _warm(parts: App) -> None:
    """Read the embedding model, so that the first question need not wait; `/readyz` says how far it is."""
    with suppress(RagstoneError):
        await parts.searching_embedder()
