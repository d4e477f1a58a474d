"""Errors as RFC 9457 problem JSON: status by type, a stable code, a sentence in the caller's language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ragstone import errors
from ragstone.errors import RagstoneError
from ragstone.messages import Language, known, render

# The first type that an error is decides.
STATUS: Mapping[type[RagstoneError], int] = {
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.RateLimited: 429,
    errors.BaseNotFound: 404,
    errors.SourceNotFound: 404,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.ModelMismatch: 409,
    errors.ContentTooLarge: 413,
    errors.UnsupportedContent: 415,
    errors.MissingExtra: 501,
    errors.NotConfigured: 409,
    errors.InvalidSetting: 500,
    errors.InputError: 422,
    errors.ContentError: 422,
    errors.StoreFull: 507,
    errors.ProviderUnavailable: 503,
    errors.StoreUnavailable: 503,
    errors.ModelError: 503,
    errors.ProviderError: 502,
    RagstoneError: 500,
}
PROBLEM = "application/problem+json"
# What the framework itself refuses.
_HTTP = {400: "access.body", 404: "access.no_route", 405: "access.method", 413: "access.too_large"}


class FieldProblem(BaseModel):
    """What is wrong with one value of a request."""

    where: str = Field(description="Dotted place, such as `body.bases.0` or `query.limit`.")
    code: str
    detail: str


class Problem(BaseModel):
    """Why a request was not done (RFC 9457)."""

    type: str = "about:blank"
    status: int
    code: str = Field(description="Stable name for programs, such as `access.key_expired`.")
    title: str = Field(description="The name of the status; `code` says more.")
    detail: str = Field(description="A sentence for people, by Accept-Language in English or Chinese.")
    request_id: str = Field(description="The X-Request-ID of the answer, by which the log names it too.")
    errors: list[FieldProblem] | None = Field(default=None, description="Of 422: each value that is wrong.")


def status_of(error: RagstoneError) -> int:
    return next(status for kind, status in STATUS.items() if isinstance(error, kind))


def wanted_language(request: Request) -> Language:
    """`Accept-Language`: Chinese where it comes first, else English."""
    first = request.headers.get("accept-language", "").split(",")[0].strip().lower()
    return "zh" if first.startswith("zh") else "en"


async def on_error(request: Request, error: Exception) -> Response:
    """One of ours, as a problem."""
    assert isinstance(error, RagstoneError)
    return problem(request, error)


async def on_http(request: Request, error: Exception) -> Response:
    """What the framework refuses: no such route, another method, a body that cannot be read."""
    assert isinstance(error, HTTPException)
    key = _HTTP.get(error.status_code, "access.refused")
    return _problem(request, error.status_code, key, headers=error.headers)


async def on_invalid(request: Request, error: Exception) -> Response:
    """Values that the request's model refuses, each named; what was sent is not repeated."""
    assert isinstance(error, RequestValidationError)
    language = wanted_language(request)
    fields = [_field_problem(item, language) for item in error.errors()[:20]]
    return _problem(request, 422, "access.invalid", fields=fields, count=len(error.errors()))


def problem(request: Request, error: RagstoneError) -> JSONResponse:
    status = status_of(error)
    headers: dict[str, str] = {}
    if status in (429, 503):
        headers["Retry-After"] = str(error.values.get("seconds", 1))
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return _problem(request, status, error.key, headers=headers, values=error.values)


def unexpected(request: Request) -> JSONResponse:
    """A fault of ours: what it was stands in the log under the id of the request."""
    return _problem(request, 500, "access.unexpected", request_id=_request_id(request))


def _problem(
    request: Request,
    status: int,
    key: str,
    *,
    headers: Mapping[str, str] | None = None,
    fields: Sequence[FieldProblem] | None = None,
    values: Mapping[str, object] | None = None,
    **more: object,
) -> JSONResponse:
    body = Problem(
        status=status,
        code=key,
        title=HTTPStatus(status).phrase,
        detail=render(key, wanted_language(request), **{**(values or {}), **more}),
        request_id=_request_id(request),
        errors=None if fields is None else list(fields),
    )
    content = body.model_dump(exclude_none=True)
    return JSONResponse(content, status_code=status, headers=dict(headers or {}), media_type=PROBLEM)


def _request_id(request: Request) -> str:
    return str(getattr(request.state, "request_id", ""))


def _field_problem(item: Mapping[str, Any], language: Language) -> FieldProblem:
    key = f"access.field_{item['type']}"
    if not known(key):
        key = "access.field_other"
    where = ".".join(str(part)[:80] for part in item["loc"])
    return FieldProblem(where=where, code=key, detail=render(key, language, **item.get("ctx", {})))
