"""Values over HTTP are taken as they are, and every refusal is a problem with a sentence."""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from talking import Talk

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/search", {"query": "ferry", "highlight": 1}),
        ("/api/search", {"query": "ferry", "rerank": "yes"}),
        ("/api/search", {"query": "ferry", "min_score": True}),
        ("/api/search", {"query": "ferry", "min_score": "0.1"}),
        ("/api/search", {"query": "ferry", "top_k": True}),
        ("/api/search", {"query": 5}),
        ("/api/search", {"query": "ferry", "bases": "lake"}),
        ("/api/bases", {"name": "x", "settings": {"min_score": True}}),
        ("/api/bases", {"name": "x", "settings": {"top_k": 5.0}}),
        ("/api/keys", {"name": "x", "role": "reader", "per_minute": True}),
        ("/api/sessions", {"bases": None, "title": 7}),
        ("/api/bases/{base}/addresses", {"url": ""}),
    ],
)
async def test_a_value_of_another_type_is_refused(talk: Talk, path: str, body: dict[str, Any]) -> None:
    response = await talk.client.post(path.format(base=talk.bases["ferry"]), json=body)
    assert response.status_code == 422, response.text
    assert response.json()["code"] == "access.invalid"


async def test_a_time_is_given_as_text(talk: Talk) -> None:
    """Without making a key: from the first on every request would need one."""
    body = {"name": "x", "role": "boss", "expires_at": "2099-01-31T00:00:00Z"}
    response = await talk.client.post("/api/keys", json=body)
    assert [error["where"] for error in response.json()["errors"]] == ["body.role"]


async def test_to_rerank_without_a_reranker_is_a_conflict(talk: Talk) -> None:
    response = await talk.client.post("/api/search", json={"query": "ferry", "rerank": True})
    assert (response.status_code, response.json()["code"]) == (409, "kb.no_reranker")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_head_works_for_health(talk: Talk, path: str) -> None:
    response = await talk.client.head(path)
    assert (response.status_code, response.content) == (200, b"")


async def test_a_slash_too_many_leads_to_a_relative_address(talk: Talk) -> None:
    response = await talk.client.get("/api/bases/?limit=3", headers={"Host": "localhost:1"})
    assert (response.status_code, response.headers["location"]) == (307, "/api/bases?limit=3")


@pytest.mark.parametrize("head", ["GET /healthz HTTP/1.1\r\n\r\n", "nonsense\r\n\r\n"])
async def test_what_has_no_host_or_is_no_http_is_told_so(talk: Talk, head: str) -> None:
    parts = urlsplit(str(talk.client.base_url))
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        connection.sendall(head.encode())
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert b" 400 " in answer.splitlines()[0]
    assert b"application/problem+json" in answer
    assert b"access.not_http" in answer


@pytest.mark.parametrize(
    "uri",
    ["javascript:alert(1)", " JavaScript:alert(1)", "data:text/html,x", "vbscript:x", "ftp://a/b", "java:x"],
)
async def test_a_citation_is_never_a_script(talk: Talk, uri: str) -> None:
    path = f"/api/bases/{talk.bases['ferry']}/documents"
    response = await talk.client.post(
        path, data={"uri": uri}, files={"files": ("a.txt", b"The ferry leaves.")}
    )
    assert (response.status_code, response.json()["code"]) == (422, "file.uri")


@pytest.mark.parametrize("uri", ["handbook", "https://example.org/a.pdf", "file:///srv/a.pdf", "手册/第一章"])
async def test_names_and_addresses_that_are_read_are_kept(talk: Talk, uri: str) -> None:
    path = f"/api/bases/{talk.bases['ferry']}/documents"
    response = await talk.client.post(
        path, data={"uri": uri}, files={"files": ("a.txt", b"The ferry leaves.")}
    )
    assert response.status_code == 202, response.text


async def test_a_file_name_of_any_length_is_shortened_or_refused_with_a_sentence(talk: Talk) -> None:
    path = f"/api/bases/{talk.bases['ferry']}/documents"
    for length in (255, 300, 5_000, 70_000):
        name = "n" * length + ".txt"
        response = await talk.client.post(path, files={"files": (name, b"The ferry leaves.")})
        assert response.status_code in (202, 422, 413, 400), response.text
        if response.status_code != 202:
            assert response.headers["content-type"] == "application/problem+json"
            assert response.json()["detail"]


@pytest.mark.parametrize("path", ["/", "/docs"])
async def test_a_person_who_opens_the_address_sees_a_page(talk: Talk, path: str) -> None:
    response = await talk.client.get(path, headers={"Accept-Language": "zh-CN", "Host": "localhost"})
    assert (response.status_code, response.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "curl http://localhost" in response.text
    assert "提问" in response.text
    assert "default-src 'none'" in response.headers["content-security-policy"]
