"""openapi.json: the contract of the HTTP API. `make openapi` writes it anew; a test compares it.

python -m ragstone.kb.api.openapi > openapi.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from ragstone.kb.api.door import OPEN_PATHS
from ragstone.kb.api.problems import PROBLEM, Problem

_METHODS = ("get", "post", "put", "patch", "delete")
_ABOUT = """\
Knowledge bases over HTTP: documents, questions, conversations.

Send a key as `Authorization: Bearer KEY` or `X-API-Key: KEY`; a server on the machine itself on
which no key was made asks for none. What a key may not see does not exist for it (404).
Errors are `application/problem+json` with a stable `code`; `Accept-Language` chooses between
English and Chinese."""
_TROUBLE = {
    "4XX": "The request cannot be done as it is; `code` and `detail` say why.",
    "5XX": "The server, or a service that it needs, fails at the moment.",
}


def operation_id(route: APIRoute) -> str:
    """The function's own name, such as `create_session`: what generated clients call their methods by."""
    return route.name


def document(api: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of the application, with its errors and keys."""
    made = get_openapi(title=api.title, version=api.version, description=_ABOUT, routes=api.routes)
    components = made.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs"))
    schemas["Problem"] = problem
    components["schemas"] = dict(sorted(schemas.items()))
    components["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    for path, operation in _operations(made):
        _complete(path, operation)
    return made


def _operations(made: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            if method in _METHODS:
                yield path, operation


def _complete(path: str, operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    content = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    if "HTTPValidationError" in json.dumps(responses.get("422", {})):
        del responses["422"]
    for status, description in _TROUBLE.items():
        responses.setdefault(status, {"description": description, "content": content})
    for response in responses.values():
        stream = response.get("content", {}).get("text/event-stream", {})
        if "itemSchema" in stream:
            stream.pop("schema", None)  # the framework's: text, as of the whole stream
    operation["security"] = [] if path in OPEN_PATHS else [{"bearer": []}, {"header": []}]


def main() -> None:
    from ragstone.kb.api.app import create_app
    from ragstone.kb.bootstrap import App
    from ragstone.kb.settings import Settings

    made = create_app(App(Settings(home=Path("unused")))).openapi()
    sys.stdout.write(json.dumps(made, ensure_ascii=False, indent=2) + "\n")


if __name__ == "__main__":
    main()
