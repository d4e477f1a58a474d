"""`/` and `/docs`: a small page for people who open the server's address in a browser."""

from __future__ import annotations

from html import escape

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from ragstone.kb.api.problems import wanted_language
from ragstone.messages import render

router = APIRouter(include_in_schema=False)

PATHS = ("/", "/docs")
_EXAMPLE = (
    "curl {address}/api/ask -H 'Content-Type: application/json'"
    ' -d \'{{"question": "When does the last ferry leave?"}}\''
)


@router.get("/")
@router.get("/docs")
async def welcome(request: Request) -> HTMLResponse:
    """What this is and how to ask it: plain HTML that loads nothing."""
    language = wanted_language(request)
    said = {
        name: escape(render(f"welcome.{name}", language)) for name in ("what", "ask", "contract", "health")
    }
    example = escape(_EXAMPLE.format(address=str(request.base_url).rstrip("/")))
    return HTMLResponse(
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8"><title>Ragstone</title></head>'
        f"<body><h1>Ragstone</h1><p>{said['what']}</p><p>{said['ask']}</p><pre>{example}</pre>"
        f'<ul><li><a href="openapi.json">{said["contract"]}</a></li>'
        f'<li><a href="readyz">{said["health"]}</a></li></ul></body></html>'
    )
