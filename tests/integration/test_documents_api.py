"""Bases and documents over HTTP, with a real server and the worker beside it."""

from __future__ import annotations

import hashlib
import socket
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from io import BytesIO
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx2
import pytest

from api import Api
from services import wait_until
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
    assert problem["title"] == HTTPStatus(status).phrase
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


def test_w33_a_failure_is_a_4xx_with_a_sentence_in_the_callers_language(
    api: Api, client: httpx2.Client, base_id: str
) -> None:
    url = f"/api/bases/{base_id}/documents"
    for content, status, code in (
        (b"", 422, "load.empty"),
        (b"MZ\x90\x00\x03", 415, "parse.not_read_yet"),
        (b"x" * 1_000_001, 413, "file.too_large"),
    ):
        refused(client.post(url, files={"files": ("a.txt", content)}), status, code)
    answer = client.post(url, files={"files": ("a.txt", b"")}, headers={"Accept-Language": "zh-CN"})
    assert "空" in refused(answer, 422, "load.empty")["detail"]
    refused(client.post(url, data={"category": "x"}, files={}), 415, "access.body_type")
    refused(client.post(url, files={"category": (None, "x")}), 422, "upload.no_file")
    refused(client.post(url, files=[("oops", (None, "x")), ("files", ("a", b"x"))]), 422, "upload.field")
    late = [("files", ("a.txt", b"x")), ("keep", (None, "both"))]
    assert "before the files" in refused(client.post(url, files=late), 422, "upload.field_late")["detail"]
    for field, value, code in (("keep", "all", "upload.keep"), ("metadata", "[1]", "upload.metadata")):
        refused(client.post(url, data={field: value}, files={"files": ("b", b"x")}), 422, code)
    two = [("files", ("c", b"x")), ("files", ("d", b"y"))]
    answer = client.post(url, data={"uri": "u"}, files=two).json()
    assert [item["outcome"] for item in answer["items"]] == ["created", "refused"]
    refused(client.post("/api/bases/nowhere/documents", files={"files": ("a", b"x")}), 404, "access.base")
    broken = {"Content-Type": "multipart/form-data; boundary=b"}
    refused(client.post(url, content=b"--b\r\nnonsense", headers=broken), 422, "upload.cut_off")
    refused(client.post(url, content=b"not multipart", headers=broken), 422, "upload.broken")
    without = {"Content-Type": "multipart/form-data"}
    refused(client.post(url, content=b"x", headers=without), 422, "upload.not_multipart")


def test_several_files_each_have_their_own_outcome(api: Api, base_id: str) -> None:
    items = api.upload(
        base_id,
        ("one.txt", b"First."),
        ("two.txt", b"x" * 1_000_001),
        ("three.txt", b"First."),
        ("four.txt", b"Second."),
        category="plans",
    )
    assert [item["outcome"] for item in items] == ["created", "refused", "duplicate", "created"]
    assert items[1]["error"]["code"] == "file.too_large"
    assert items[2]["document"]["name"] == "one.txt"
    assert {item["category"] for item in api.documents(base_id)} == {"plans"}


def test_a84_ten_uploads_of_the_same_bytes_at_once_are_one_document(api: Api, base_id: str) -> None:
    with ThreadPoolExecutor(10) as pool:
        done = list(pool.map(lambda n: api.upload(base_id, (f"{n}.txt", b"The same."))[0], range(10)))
    assert sorted(item["duplicate"] for item in done) == [False, *[True] * 9]
    assert len(api.documents(base_id)) == 1


def test_a_body_that_is_cut_off_leaves_nothing_of_its_last_file(
    api: Api, client: httpx2.Client, base_id: str
) -> None:
    address = urlsplit(str(client.base_url))
    body = (
        b'--b\r\nContent-Disposition: form-data; name="files"; filename="whole.txt"\r\n\r\nWhole.\r\n'
        b'--b\r\nContent-Disposition: form-data; name="files"; filename="half.txt"\r\n\r\nHal'
    )
    head = (
        f"POST /api/bases/{base_id}/documents HTTP/1.1\r\nHost: {address.netloc}\r\n"
        f"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000\r\n\r\n"
    )
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        connection.sendall(head.encode() + body)
        wait_until(lambda: bool(api.documents(base_id)), seconds=30, what="the first file is stored")
    assert [item["name"] for item in api.settled(base_id).values()] == ["whole.txt"]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\报告.txt", "报告.txt"),
        ("👩‍🔬 \u202efamily.txt", "👩‍🔬 family.txt"),
        ("تقرير.txt", "تقرير.txt"),
        ("饭" * 100 + ".txt", "饭" * 83 + ".txt"),
        ("a;b.txt", "a;b.txt"),
    ],
)
def test_hostile_names_are_kept_as_one_line_and_come_back_as_one(
    api: Api, client: httpx2.Client, base_id: str, sent: str, kept: str
) -> None:
    (item,) = api.upload(base_id, (sent, sent.encode()))
    assert item["name"] == item["document"]["name"] == kept
    answer = client.get(f"/api/documents/{item['document']['document_id']}/download")
    named = answer.headers["content-disposition"]
    assert named.startswith('attachment; filename="')
    assert unquote(named.rpartition("filename*=UTF-8''")[2]) == kept
    assert named.isascii()


def test_a88_originals_are_downloaded_whole_and_in_ranges(
    api: Api, client: httpx2.Client, base_id: str
) -> None:
    (item,) = api.upload(base_id, ("a.html", b"<html><script>alert(1)</script>0123456789</html>"))
    url, size = f"/api/documents/{item['document']['document_id']}/download", item["document"]["size"]
    whole = client.get(url)
    assert (whole.status_code, len(whole.content)) == (200, size)
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in whole.headers["content-security-policy"]
    assert whole.headers["accept-ranges"] == "bytes"
    for asked, first, last in (
        ("bytes=0-3", 0, 3),
        ("bytes=5-", 5, size - 1),
        ("bytes=-4", size - 4, size - 1),
        ("bytes=2-9999", 2, size - 1),
        ("bytes=0-", 0, size - 1),
    ):
        part = client.get(url, headers={"Range": asked})
        assert (part.status_code, part.content) == (206, whole.content[first : last + 1]), asked
        assert part.headers["content-range"] == f"bytes {first}-{last}/{size}"
    for ignored in ("bytes=1-2,4-5", "lines=1-2", "bytes=5-2", "bytes=", "bytes=a-b"):
        assert client.get(url, headers={"Range": ignored}).status_code == 200, ignored
    for beyond in (f"bytes={size}-", "bytes=99999-"):
        part = client.get(url, headers={"Range": beyond})
        assert (part.status_code, part.headers["content-range"]) == (416, f"bytes */{size}")
    tag = whole.headers["etag"]
    assert client.get(url, headers={"If-None-Match": tag}).status_code == 304
    assert client.get(url, headers={"Range": "bytes=0-1", "If-Range": '"other"'}).status_code == 200
    assert api.document(item["document"]["document_id"])["accesses"] > 0


def test_a_zip_bomb_fails_with_a_reason_and_the_others_go_on(api: Api, base_id: str) -> None:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("zeros.txt", b"0" * 400_000_000)
    assert len(packed.getvalue()) < 1_000_000
    api.upload(base_id, ("bomb.zip", packed.getvalue()), ("fine.txt", b"Fine."))
    found = api.settled(base_id)
    assert found["fine.txt"]["status"] == "ready"
    bomb_of = found["bomb.zip"]
    reasons = [bomb_of["error"], *bomb_of["failures"]]
    assert any(reason and reason["detail"] for reason in reasons)


def test_c2_deleting_over_http_says_what_went_and_404_afterwards(
    api: Api, client: httpx2.Client, base_id: str
) -> None:
    (item,) = api.upload(base_id, ("a.txt", b"Once there."))
    document_id = item["document"]["document_id"]
    api.settled(base_id)
    report = api.call("DELETE", f"/api/documents/{document_id}")
    assert report["document_ids"] == [document_id]
    assert {table: report["rows"][table] for table in ("documents", "chunks", "files", "blobs")} == {
        "documents": 1, "chunks": 1, "files": 1, "blobs": 1,
    }  # fmt: skip
    for path in ("", "/text", "/chunks", "/download"):
        refused(client.get(f"/api/documents/{document_id}{path}"), 404, "file.not_found")
    refused(client.delete(f"/api/documents/{document_id}"), 404, "file.not_found")
    report = api.call("POST", f"/api/bases/{base_id}/documents/delete", {"document_ids": [document_id]})
    assert report["document_ids"] == []
    api.call("DELETE", f"/api/bases/{base_id}")
    refused(client.get(f"/api/bases/{base_id}"), 404, "access.base")


def test_bases_are_changed_and_their_settings_checked(api: Api, client: httpx2.Client, base_id: str) -> None:
    url = f"/api/bases/{base_id}"
    changed = api.call("PATCH", url, {"description": "d", "category": "c", "settings": {"top_k": 3}})
    assert (changed["description"], changed["category"], changed["settings"]["top_k"]) == ("d", "c", 3)
    assert api.call("PATCH", url, {"settings": {"top_k": None}})["settings"]["top_k"] is None
    refused(client.patch(url, json={"settings": {"chunk_size": 2}}), 422, "base.setting")
    for body in ({"nonsense": 1}, {"name": 7}, {"settings": {"home": "/"}}, {"name": "x" * 65}, []):
        assert client.patch(url, json=body).status_code == 422, body
    refused(client.post("/api/bases", json={"name": "\u202e"}), 422, "kb.base_name")
    taken = api.call("GET", url)["name"]
    refused(client.post("/api/bases", json={"name": taken}), 409, "base.taken")
    assert api.call("GET", "/api/bases", params={"search": taken.upper(), "category": "c"})["total"] == 1
    assert api.call("GET", f"{url}/stats")["documents"] == 0
    for query in ("limit=0", "limit=201", "offset=-1", "sort=magic", "status=lost"):
        assert client.get(f"{url}/documents?{query}").status_code == 422, query


def test_addresses_are_read_in_the_background_and_private_ones_are_refused(api: Api, base_id: str) -> None:
    done = api.call(
        "POST", f"/api/bases/{base_id}/addresses", {"url": "http://127.0.0.1:9/a.html"}, status=202
    )
    assert (done["outcome"], done["document"]["sha256"]) == ("created", None)
    failed = api.settled(base_id)["a.html"]
    assert (failed["status"], failed["error"]["code"]) == ("failed", "load.private")


def test_a_passage_is_hidden_from_searches_and_shown_again(
    api: Api, client: httpx2.Client, base_id: str
) -> None:
    api.upload(base_id, ("a.txt", b"The zinnias are red."))
    document_id = api.settled(base_id)["a.txt"]["document_id"]
    url = f"/api/documents/{document_id}/chunks"
    (chunk,) = api.call("GET", url)["items"]
    assert chunk["enabled"]
    api.call("PATCH", f"{url}/{chunk['chunk_id']}", {"enabled": False}, status=204)
    assert not api.call("GET", url)["items"][0]["enabled"]
    assert api.search("zinnias", [base_id]) == []
    api.call("PATCH", f"{url}/{chunk['chunk_id']}", {"enabled": True}, status=204)
    assert len(api.search("zinnias", [base_id])) == 1
    refused(client.patch(f"{url}/unknown", json={"enabled": True}), 404, "file.no_chunk")
