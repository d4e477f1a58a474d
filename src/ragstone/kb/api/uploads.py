"""Uploads into a base, and the originals back out."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Annotated, Any, cast
from urllib.parse import quote

from fastapi import APIRouter, Header, Request
from pydantic import BaseModel, Field
from starlette.responses import Response, StreamingResponse

from ragstone.errors import ContentError, InputError, NotFound, RagstoneError
from ragstone.kb import catalog, files, uploads
from ragstone.kb.api.bases import BaseId
from ragstone.kb.api.dependencies import Parts, Who
from ragstone.kb.api.documents import DocumentId, DocumentView, view
from ragstone.kb.api.models import RequestBody, Said
from ragstone.kb.api.multipart import Incoming, received
from ragstone.kb.api.problems import wanted_language
from ragstone.kb.bootstrap import App
from ragstone.kb.caller import Caller
from ragstone.kb.uploads import MAX_CATEGORY, MAX_URI_BYTES, Target, Uploaded

router = APIRouter(prefix="/api", tags=["documents"])

_FIELDS: dict[str, Any] = {
    "keep": {
        "type": "string",
        "enum": ["one", "both"],
        "default": "one",
        "description": "`one`: bytes that the base has are the document that has them; `both`: another one.",
    },
    "uri": {
        "type": "string",
        "maxLength": MAX_URI_BYTES,
        "description": "Where the file comes from; another one under the same uri is its new version.",
    },
    "category": {"type": "string", "maxLength": MAX_CATEGORY},
    "metadata": {"type": "string", "description": "A JSON object.", "examples": ['{"year": 2024}']},
    "files": {"type": "array", "items": {"type": "string", "format": "binary"}},
}
_UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {"type": "object", "required": ["files"], "properties": _FIELDS},
            }
        },
    }
}
_DOWNLOAD: dict[int | str, dict[str, Any]] = {
    200: {"content": {"*/*": {}}, "description": "The file as it was uploaded."},
    206: {"content": {"*/*": {}}, "description": "The bytes of the range."},
    304: {"description": "It is what the client has."},
    416: {"description": "The file has no such bytes."},
}


class AddressRequest(RequestBody):
    url: str = Field(min_length=1, max_length=MAX_URI_BYTES, examples=["https://example.org/handbook.pdf"])
    category: str = Field(default="", max_length=MAX_CATEGORY)
    metadata: dict[str, Any] = Field(default_factory=dict, examples=[{"year": 2024}])


class UploadItem(BaseModel):
    """What became of one file: `document`, or `error` for one that was refused.

    `duplicate`: the base had these bytes; `document` is the one that has them.
    """

    name: str
    outcome: str = Field(examples=["created", "duplicate", "queued_again", "new_version", "refused"])
    duplicate: bool = False
    document: DocumentView | None = None
    error: Said | None = None


class UploadAnswer(BaseModel):
    items: list[UploadItem]


@router.post("/bases/{base_id}/documents", status_code=202, openapi_extra=_UPLOAD)
async def upload_documents(base_id: BaseId, request: Request, parts: Parts, who: Who) -> UploadAnswer:
    """Upload one file or several; they are read in the background.

    Fields come before the files they are about. Of several files each has its own outcome; where one
    was sent alone and is refused, the answer is the reason.
    """
    who.require("editor")
    database, settings = await parts.database(), parts.settings
    await catalog.check(database, who, base_id)
    fields: dict[str, str] = {}
    items: list[UploadItem] = []
    refused: list[RagstoneError] = []
    stream = received(request, folder=settings.home / "spool", limit=settings.max_file_mb * 1_000_000)
    async with aclosing(stream) as arriving:
        async for item in arriving:
            if not isinstance(item, Incoming):
                _note(fields, item.name, item.value, late=bool(items))
                continue
            try:
                target = _target(base_id, fields, first=not items)
                items.append(await _store(parts, who, item, target, request))
            except (ContentError, InputError) as error:
                refused.append(error)
                items.append(_refused(item.spool.name, error, request))
    if not items:
        raise InputError("upload.no_file")
    if len(items) == 1 and refused:
        raise refused[0]
    return UploadAnswer(items=items)


@router.post("/bases/{base_id}/addresses", status_code=202)
async def add_address(
    base_id: BaseId, body: AddressRequest, request: Request, parts: Parts, who: Who
) -> UploadItem:
    """Read an address of the web in the background; one that is known is read again."""
    target = Target(base_id=base_id, category=body.category, metadata=body.metadata)
    done = await uploads.add_address(await parts.database(), who, body.url, target)
    return await _done(parts, who, done, request)


@router.get("/documents/{document_id}/download", responses=_DOWNLOAD, response_class=Response)
async def download(
    document_id: DocumentId,
    parts: Parts,
    who: Who,
    wanted: Annotated[str | None, Header(alias="Range", max_length=200)] = None,
    if_none_match: Annotated[str | None, Header(max_length=1_000)] = None,
    if_range: Annotated[str | None, Header(max_length=200)] = None,
) -> Response:
    """The original, whole or a range of its bytes."""
    database = await parts.database()
    info = await files.one(database, who, document_id)
    if info.blob_hash is None:
        raise NotFound("file.no_original", name=info.name)
    tag = f'"{info.blob_hash}"'
    headers = {
        "Content-Disposition": disposition(info.name),
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Cache-Control": "private, no-cache",
        "Accept-Ranges": "bytes",
        "ETag": tag,
    }
    if if_none_match is not None and tag in if_none_match:
        return Response(status_code=304, headers=headers)
    try:
        part = byte_range(wanted, info.size) if wanted is not None and if_range in (None, tag) else None
    except ValueError:
        return Response(status_code=416, headers=headers | {"Content-Range": f"bytes */{info.size}"})
    start, end = part or (0, info.size)
    if part is not None:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{info.size}"
    headers["Content-Length"] = str(end - start)
    pieces = (await parts.blobs()).read(info.blob_hash, start, end)
    # Before the answer begins: that the blob is gone must not end as half a file.
    first = await anext(pieces, b"")
    if start == 0:
        await files.opened(database, who, document_id)
    return StreamingResponse(
        _joined(first, pieces),
        status_code=200 if part is None else 206,
        headers=headers,
        media_type=info.media_type or "application/octet-stream",
    )


async def _joined(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest):
        yield first
        async for piece in rest:
            yield piece


def byte_range(header: str, size: int) -> tuple[int, int] | None:
    """The bytes of a Range header, half open; None for what is no single range, which is ignored.

    Raises:
        ValueError: the file has no such bytes.
    """
    unit, _, spec = header.replace(" ", "").partition("=")
    first, dash, last = spec.partition("-")
    plain = all(part.isascii() and part.isdigit() and len(part) < 20 for part in (first, last) if part)
    if unit != "bytes" or not dash or not plain or not (first or last):
        return None
    if first and last and int(last) < int(first):
        return None
    if first:
        start, end = int(first), min(int(last) + 1, size) if last else size
    else:
        start, end = max(0, size - int(last)), size
    if start >= size or start >= end:
        raise ValueError(header)
    return start, end


def disposition(name: str) -> str:
    """Content-Disposition by RFC 6266: to be saved, under a name that may be of any script."""
    plain = "".join(char if " " <= char <= "~" and char not in '"\\%;' else "_" for char in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


async def _store(parts: App, who: Caller, item: Incoming, target: Target, request: Request) -> UploadItem:
    if item.error is not None:
        raise item.error
    database, blobs = await parts.database(), await parts.blobs()
    done = await uploads.upload(database, blobs, who, item.spool, target)
    return (await _done(parts, who, done, request)).model_copy(update={"name": item.spool.name})


async def _done(parts: App, who: Caller, done: Uploaded, request: Request) -> UploadItem:
    if done.job_id is not None:
        await (await parts.wakeup()).notify([done.job_id])
    info = await files.one(await parts.database(), who, done.document_id)
    return UploadItem(
        name=info.name,
        outcome=done.outcome,
        duplicate=done.outcome in ("duplicate", "queued_again"),
        document=view(info, wanted_language(request)),
    )


def _refused(name: str, error: RagstoneError, request: Request) -> UploadItem:
    said = Said(code=error.code, detail=error.text(wanted_language(request)))
    return UploadItem(name=name, outcome="refused", error=said)


def _note(fields: dict[str, str], name: str, value: str, *, late: bool) -> None:
    if name not in _FIELDS or name == "files":
        raise InputError("upload.field", name=name[:80])
    if late:
        raise InputError("upload.field_late", name=name)
    fields[name] = value


def _target(base_id: str, fields: Mapping[str, str], *, first: bool) -> Target:
    keep = fields.get("keep", "one")
    if keep not in ("one", "both"):
        raise InputError("upload.keep", value=keep[:80])
    if fields.get("uri") and not first:
        raise InputError("upload.uri_of_one")
    return Target(
        base_id=base_id,
        uri=fields.get("uri", ""),
        category=fields.get("category", ""),
        metadata=_metadata(fields.get("metadata", "")),
        keep_both=keep == "both",
    )


def _metadata(text: str) -> dict[str, object]:
    if not text.strip():
        return {}
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError("upload.metadata", example='{"year": 2024}') from error
    if not isinstance(found, dict):
        raise InputError("upload.metadata", example='{"year": 2024}')
    return cast("dict[str, object]", found)
