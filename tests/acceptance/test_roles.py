"""Each operation asks for a role and stays within the bases of the key: every route of the contract."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from api import Api
from serving import serving

ROOT = Path(__file__).resolve().parents[2]
PATHS: dict[str, Any] = json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))["paths"]
OPERATIONS = sorted(f"{method.upper()} {path}" for path, methods in PATHS.items() for method in methods)

# The least role, for what a reader may not; everything else is a reader's.
EDITOR = {
    "PATCH /api/documents/{document_id}/chunks/{chunk_id}",
    "POST /api/bases/{base_id}/documents",
    "POST /api/bases/{base_id}/documents/retry",
    "POST /api/bases/{base_id}/documents/delete",
    "POST /api/bases/{base_id}/addresses",
    "POST /api/bases/{base_id}/reindex",
    "PATCH /api/documents/{document_id}",
    "DELETE /api/documents/{document_id}",
    "POST /api/documents/{document_id}/retry",
    "GET /api/jobs",
    "GET /api/jobs/{job_id}",
    "POST /api/jobs/{job_id}/cancel",
    "POST /api/jobs/{job_id}/replay",
    "POST /api/jobs/replay",
}
ADMIN = {
    "POST /api/bases",
    "PATCH /api/bases/{base_id}",
    "DELETE /api/bases/{base_id}",
    "GET /api/audit",
    "GET /api/feedback",
    "GET /api/keys",
    "POST /api/keys",
    "DELETE /api/keys/{key_id}",
}
BODIES: dict[str, Any] = {
    "POST /api/ask": {"question": "ferry?"},
    "POST /api/ask/stream": {"question": "ferry?"},
    "POST /api/search": {"query": "ferry"},
    "POST /api/sessions": {},
    "PATCH /api/sessions/{session_id}": {"title": "t"},
    "POST /api/sessions/{session_id}/messages": {"question": "ferry?"},
    "POST /api/sessions/{session_id}/messages/stream": {"question": "ferry?"},
    "POST /api/sessions/{session_id}/messages/{message_id}/regenerate": {},
    "POST /api/sessions/{session_id}/messages/{message_id}/regenerate/stream": {},
    "PUT /api/sessions/{session_id}/messages/{message_id}/feedback": {"rating": 1},
    "POST /api/bases": {"name": "new"},
    "PATCH /api/bases/{base_id}": {"description": "d"},
    "POST /api/bases/{base_id}/addresses": {"url": "http://127.0.0.1:1/x"},
    "POST /api/bases/{base_id}/documents/delete": {"document_ids": ["none"]},
    "PATCH /api/documents/{document_id}": {"category": "c"},
    "PATCH /api/documents/{document_id}/chunks/{chunk_id}": {"enabled": True},
    "POST /api/keys": {"name": "k", "role": "reader"},
}
NOWHERE = {"key_id": "none", "chunk_id": "none", "job_id": "none", "message_id": "none"}


@dataclass(frozen=True, kw_only=True)
class World:
    """A server with bases X and Y; keys: an admin's, and a reader's and an editor's of X."""

    url: str
    keys: dict[str, str]
    mine: dict[str, str]
    theirs: dict[str, str]

    def call(self, role: str, operation: str, ids: dict[str, str]) -> httpx2.Response:
        method, path = operation.split()
        for name in re.findall(r"{(\w+)}", path):
            path = path.replace(f"{{{name}}}", {**NOWHERE, **ids}[name])
        options: dict[str, Any] = {"json": BODIES[operation]} if operation in BODIES else {}
        if operation == "POST /api/bases/{base_id}/documents":
            options = {"files": [("files", ("a.md", b"A page."))]}
        headers = {"Authorization": f"Bearer {self.keys[role]}"}
        return httpx2.request(method, self.url + path, headers=headers, timeout=60, **options)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with serving(tmp_path_factory.mktemp("roles") / "home") as url:
        with httpx2.Client(base_url=url, timeout=60) as client:
            api = Api(client)
            places = [filled(api, name) for name in ("X", "Y")]
            keys = {"admin": made_key(api, "admin", None)}
            client.headers["Authorization"] = f"Bearer {keys['admin']}"  # from now on one is asked for
            keys |= {role: made_key(api, role, [places[0]["base_id"]]) for role in ("reader", "editor")}
        yield World(url=url, keys=keys, mine=places[0], theirs=places[1])


def made_key(api: Api, role: str, bases: list[str] | None) -> str:
    return api.call("POST", "/api/keys", {"name": role, "role": role, "bases": bases}, status=201)["key"]


def filled(api: Api, name: str) -> dict[str, str]:
    base_id = api.make_base(name)
    (item,) = api.upload(base_id, (f"{name}.md", f"The ferry {name} leaves at noon.".encode()))
    api.settled(base_id)
    return {"base_id": base_id, "document_id": item["document"]["document_id"], "session_id": "none"}


def test_the_tables_of_this_test_name_operations_that_exist() -> None:
    assert (EDITOR | ADMIN | set(BODIES)) - set(OPERATIONS) == set()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_c44_a_role_may_do_what_it_says_and_no_more(world: World, operation: str) -> None:
    roles = ("reader", "editor") if operation in ADMIN else ("reader",) if operation in EDITOR else ()
    for role in roles:
        response = world.call(role, operation, world.mine)
        assert (response.status_code, response.json()["code"]) == (403, "access.role"), response.text
    if not roles:
        assert world.call("reader", operation, world.mine).status_code in (200, 201, 202, 204, 404, 409)


@pytest.mark.parametrize(
    "operation", [name for name in OPERATIONS if re.search("{(base|document)_id}", name)]
)
def test_c44_what_lies_in_another_base_does_not_exist(world: World, operation: str) -> None:
    """Neither to read nor to change, and told as an id that there never was."""
    for role in ("reader", "editor"):
        if operation in ADMIN or (operation in EDITOR and role == "reader"):
            continue
        theirs = world.call(role, operation, world.theirs)
        assert theirs.status_code == 404, theirs.text
        nowhere = world.call(role, operation, dict.fromkeys(world.theirs, "0123456789abcdef"))
        assert (theirs.status_code, theirs.json()["code"]) == (nowhere.status_code, nowhere.json()["code"])
    if operation not in ADMIN and operation.startswith("GET"):
        assert world.call("admin", operation, world.theirs).status_code == 200


def test_c44_lists_counts_and_searches_show_the_bases_of_the_key(world: World) -> None:
    def asked(role: str, method: str, path: str, body: object = None) -> Any:
        headers = {"Authorization": f"Bearer {world.keys[role]}"}
        response = httpx2.request(method, world.url + path, json=body, headers=headers, timeout=60)
        return response.json()

    search = {"query": "the ferry leaves at noon", "mode": "text"}
    for role, names in (("reader", ["X"]), ("admin", ["X", "Y"])):
        assert [item["name"] for item in asked(role, "GET", "/api/bases")["items"]] == names
        assert asked(role, "GET", "/api/stats")["bases"] == len(names)
        hits = asked(role, "POST", "/api/search", search)["hits"]
        assert sorted(hit["base"] for hit in hits) == names
        filtered = {**search, "filter": "'a' == 'a' or true", "bases": None}
        assert {hit["base"] for hit in asked(role, "POST", "/api/search", filtered).get("hits", [])} <= set(
            names
        )
    theirs = asked("reader", "POST", "/api/search", {**search, "bases": [world.theirs["base_id"]]})
    assert (theirs["status"], theirs["code"]) == (404, "access.base")
    nothing = asked("reader", "POST", "/api/search", {**search, "bases": []})
    assert nothing["status"] == 422
    jobs = asked("editor", "GET", "/api/jobs")
    assert {job["base_id"] for job in jobs["items"]} == {world.mine["base_id"]}
