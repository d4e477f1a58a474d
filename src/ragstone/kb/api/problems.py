"""Errors as RFC 9457 problem JSON: status by type, a stable code, a sentence in the caller's language."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ragstone import errors
from ragstone.errors import RagstoneError
from ragstone.messages import Language

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


def problem(request: Request, error: RagstoneError) -> JSONResponse:
    status = status_of(error)
    body = {
        "type": "about:blank",
        "status": status,
        "code": error.code,
        "title": type(error).__name__,
        "detail": error.text(wanted_language(request)),
    }
    headers: dict[str, str] = {}
    if status in (429, 503):
        headers["Retry-After"] = str(error.values.get("seconds", 1))
    return JSONResponse(body, status_code=status, headers=headers, media_type=PROBLEM)
