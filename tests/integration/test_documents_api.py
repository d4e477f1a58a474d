"""Bases and documents over HTTP, with a real server and the worker beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from api import Api
from serving import serving

EN = b"# Orchids\n\nOrchids need shade.\n\n## Water\n\nWater them once a week.\n"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    home = tmp_path_factory.mktemp("home")
    with serving(home, max_file_mb="1") as url, httpx2.Client(base_url=url, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def api(client: httpx2.Client) -> Api:
    return Api(client)


@pytest.fixture
def base_id(api: Api, request: pytest.FixtureRequest) -> str:
    return api.make_base(request.node.name[-60:])


def refused(response: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    problem = response.json()
    assert (response.status_code, problem["code"]) == (status, code), problem
    assert response.headers["content-type"] == "application/problem+json"
    return problem


def test_a83_an_upload_is_answered_at_once_and_becomes_ready(api: Api, base_id: str) -> None:
    (item,) = api.upload(base_id, ("orchids.md", EN))
    assert (item["outcome"], item["duplicate"]) == ("created", False)
    assert item["document"]["status"] in ("pending", "processing", "ready")
    document = api.settled(base_id)["orchids.md"]
    assert (document["status"], document["size"], document["error"]) == ("ready", len(EN), None)
    assert (document["title"], document["chunks"] > 0) == ("Orchids", True)
    assert document["sha256"] == hashlib.sha256(EN).hexdigest()
    text = api.call("GET", f"/api/documents/{document['document_id']}/text")
    chunks = api.call("GET", f"/api/documents/{document['document_id']}/chunks")
    assert chunks["total"] == document["chunks"]
    for chunk in chunks["items"]:
        assert text["text"][chunk["start"] : chunk["end"]] == chunk["text"]


def test_first(client, api, base_id):
    print(json.dumps(api.call("GET", f"/api/bases/{base_id}"), indent=1))
    print(json.dumps(api.call("GET", "/api/stats"), indent=1))
    print(api.call("GET", "/api/bases"))
