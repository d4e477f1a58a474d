"""Who comes in over HTTP, with what, and what is said to whoever does not: real servers, rude clients."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from serving import COMMAND, environment_of, log_of, process, serving

WIKI = "https://wiki.example.com"
ANSWER_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Place:
    """A server, where it keeps its things, and keys by role."""

    url: str
    home: Path
    keys: dict[str, str]

    def client(self, role: str = "") -> httpx2.Client:
        headers = {"Authorization": f"Bearer {self.keys[role]}"} if role else {}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=ANSWER_S)

    def log(self) -> list[dict[str, Any]]:
        """Every line of the log: each one is JSON."""
        return [json.loads(line) for line in log_of(self.home).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server on which no key was made."""
    home = tmp_path_factory.mktemp("opened") / "home"
    with serving(home, cors_origins=WIKI) as url:
        yield Place(url=url, home=home, keys={})


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server that asks for keys, listening for all machines."""
    home = tmp_path_factory.mktemp("keyed") / "home"
    keys = {role: key(home, "create", "--name", role, "--role", role)["key"] for role in ("admin", "editor")}
    keys["reader"] = key(home, "create", "--name", "r", "--role", "reader", "--per-minute", "900000")["key"]
    keys["slow"] = key(home, "create", "--name", "s", "--role", "reader", "--per-minute", "2")["key"]
    with serving(home, host="0.0.0.0", log_format="json", log_level="debug") as url:
        yield Place(url=url.replace("0.0.0.0", "127.0.0.1"), home=home, keys=keys)


def ragstone(home: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        env=environment_of(home, **settings),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def key(home: Path, *arguments: str) -> dict[str, Any]:
    done = ragstone(home, "key", *arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def raw(url: str, request: bytes) -> str:
    """What a server answers to these bytes, until it closes or has said all of one answer."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=ANSWER_S) as connection:
        connection.sendall(request)
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece
            head, separator, body = answer.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head.lower())
            if separator and length and len(body) >= int(length[1]):
                break
    return answer.decode("utf-8", "replace")


def problem(response: httpx2.Response) -> tuple[int, str]:
    """(status, code) of an answer that is a proper problem and shows nothing of the code."""
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == response.status_code
    assert body["request_id"] == response.headers["x-request-id"]
    assert body["detail"]
    assert "Traceback" not in response.text
    return response.status_code, body["code"]


# --- without keys ------------------------------------------------------------------


def test_a_server_of_ones_own_is_open_to_this_machine(opened: Place) -> None:
    with opened.client() as client:
        assert client.get("/api/me").json() == {"key_id": None, "role": "admin", "bases": None}
        # Programs that always send some key are let in too.
        assert client.get("/api/me", headers={"Authorization": "Bearer sk-anything"}).status_code == 200
        port = urlsplit(opened.url).port
        for host in ("localhost", f"LOCALHOST:{port}", f"127.0.0.1:{port}", "[::1]", "localhost."):
            assert client.get("/api/me", headers={"Host": host}).status_code == 200, host


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "localhost.evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "evil.example@127.0.0.1"},
        {"Host": "127.0.0.1@evil.example"},
        {"Host": "127.0.0.1:x"},
        {"Host": "127.0.0.1/evil"},
        {"Host": "192.168.0.7"},
        {"Host": ""},
        {"X-Forwarded-For": "203.0.113.7"},
        {"Forwarded": "for=203.0.113.7"},
    ],
)
def test_an_open_server_answers_to_no_foreign_name_and_no_proxy(
    opened: Place, headers: dict[str, str]
) -> None:
    with opened.client() as client:
        for method, path in (("GET", "/api/me"), ("POST", "/api/keys"), ("GET", "/openapi.json")):
            response = client.request(method, path, headers=headers)
            assert problem(response) == (403, "access.foreign_host"), path
        assert client.get("/healthz", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Origin": "https://wiki.example.com.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_of_other_sites_change_nothing(opened: Place, headers: dict[str, str]) -> None:
    with opened.client() as client:
        for content_type in ("application/json", "text/plain"):
            body = json.dumps({"name": "k", "role": "admin"})
            response = client.post(
                "/api/keys", content=body, headers={**headers, "Content-Type": content_type}
            )
            assert problem(response) == (403, "access.foreign_origin")
            assert "access-control-allow-origin" not in response.headers
        assert client.delete("/api/keys/x", headers=headers).status_code == 403
        assert client.get("/api/keys").json()["total"] == 0


def test_a_page_may_call_only_where_the_setting_names_its_origin(opened: Place, keyed: Place) -> None:
    ask = {"Access-Control-Request-Method": "DELETE", "Access-Control-Request-Headers": "authorization"}
    with opened.client() as client:
        allowed = client.options("/api/keys/x", headers={"Origin": WIKI, **ask})
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == WIKI
        assert "access-control-allow-credentials" not in allowed.headers
        assert problem(client.delete("/api/keys/x", headers={"Origin": WIKI})) == (404, "access.no_such_key")
        foreign = client.options("/api/keys/x", headers={"Origin": "https://evil.example", **ask})
        assert foreign.status_code == 400
        assert "access-control-allow-origin" not in foreign.headers
    with keyed.client() as client:  # where it names none
        answer = client.options("/api/keys/x", headers={"Origin": WIKI, **ask})
        assert not [name for name in answer.headers if name.startswith("access-control")]


# --- with keys ---------------------------------------------------------------------


def test_each_role_may_do_what_it_says(keyed: Place) -> None:
    for role in ("reader", "editor", "admin"):
        with keyed.client(role) as client:
            assert client.get("/api/me").json()["role"] == role
            for method, path in (("GET", "/api/keys"), ("GET", "/api/audit"), ("DELETE", "/api/keys/x")):
                response = client.request(method, path)
                if role == "admin":
                    assert response.status_code in (200, 404)
                else:
                    assert problem(response) == (403, "access.role")
    with keyed.client() as client:
        assert client.get("/api/me", headers={"X-API-Key": keyed.keys["reader"]}).json()["role"] == "reader"


def test_nothing_but_health_answers_without_a_key(keyed: Place) -> None:
    with keyed.client() as client:
        for path in (
            "/api/me",
            "/api/keys",
            "/openapi.json",
            "/redoc",
            "/nonsense",
            "/../etc/passwd",
        ):
            for method in ("GET", "POST", "PUT", "DELETE", "BREW"):
                response = client.request(method, path)
                assert problem(response) == (401, "access.key_missing"), (method, path)
                assert response.headers["www-authenticate"] == "Bearer"
        assert all("<h1>Ragstone</h1>" in client.get(path).text for path in ("/", "/docs"))
        assert client.get("/healthz").json() == {"status": "ok"}
        ready = client.get("/readyz")
        assert ready.status_code == 200
        parts = ready.json()["parts"]
        assert set(parts) == {"database", "wakeups", "blobs", "models"}
        assert {part["state"] for part in parts.values()} == {"ok"}
    with keyed.client("reader") as client:
        assert client.get("/openapi.json").status_code == 200
        assert problem(client.get("/api/nothing")) == (404, "access.no_route")


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["Authorization: Bearer {key}"], 200),
        (["authorization:   bearer   {key}  "], 200),
        (["X-API-Key: {key}"], 200),
        (["Authorization: Bearer {key}", "Authorization: Bearer {key}"], 401),
        (["Authorization: Bearer {key}", "X-API-Key: {key}"], 401),
        (["X-API-Key: {key}", "X-API-Key: nonsense"], 401),
        (["Authorization: Bearer {key}, Bearer {key}"], 401),
        (["Authorization: Basic {key}"], 401),
        (["Authorization: {key}"], 401),
        (["Authorization: Bearer"], 401),
        (["Authorization: Bearer {key}x"], 401),
        (["Authorization: Bearer {key}\x00"], 400),
        (["Authorization: Bearer {key}\xff"], 401),
        (["Authorization: Bearer ' OR 1=1 --"], 401),
        (["Authorization: Bearer " + "a" * 20_000], 401),
        (["Authorization: Bearer " + "a" * 2_000_000], 400),
        (["X-API-Key: x\r\n continued"], 401),
        (["X-API-Key : {key}"], 400),
    ],
)
def test_a_key_comes_in_exactly_one_header(keyed: Place, lines: list[str], status: int) -> None:
    head = ["GET /api/me HTTP/1.1", "Host: x", "Connection: close", *lines, "", ""]
    request = "\r\n".join(head).replace("{key}", keyed.keys["reader"]).encode("latin-1")
    try:
        answer = raw(keyed.url, request)
    except ConnectionError:  # cut off in the middle of a header without end
        assert status == 400
        return
    assert answer.startswith(f"HTTP/1.1 {status} "), answer[:300]
    assert keyed.keys["reader"] not in answer


def test_a_request_is_what_one_line_and_its_headers_say(keyed: Place) -> None:
    """Line ends smuggled into values split nothing, and an id that is no id is not repeated."""
    with keyed.client("reader") as client:
        mine = client.get("/api/me", headers={"X-Request-ID": "my-request.7"})
        assert mine.headers["x-request-id"] == "my-request.7"
        for bad in ("a b", "<script>", "x" * 65, "é".encode()):
            assert client.get("/api/me", headers={"X-Request-ID": bad}).headers["x-request-id"] != bad
        assert problem(client.get("/api/me%0d%0aX-Evil:%20yes")) == (404, "access.query_text")
        assert problem(client.get("/api/me%00")) == (404, "access.query_text")
        assert problem(client.get("/api/me?x=%00")) == (422, "access.query_text")
        for path in (
            "/api/../../etc/passwd",
            "/api/%2e%2e/%2e%2e/etc/passwd",
            "/api/keys/..%2f..%2fx",
            "/%2fevil",
        ):
            assert client.get(path).status_code in (404, 405), path
    smuggled = raw(
        keyed.url,
        b"POST /api/me HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    )
    assert smuggled.startswith(("HTTP/1.1 400 ", "HTTP/1.1 401 "))


def test_a_key_that_asks_too_often_is_told_when_to_come_back(keyed: Place) -> None:
    with keyed.client("slow") as client:
        answers = [client.get("/api/me") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    assert problem(answers[-1]) == (429, "access.rate_limited")
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 30
    with keyed.client("reader") as client:
        assert client.get("/api/me").status_code == 200


def test_a_key_is_made_once_listed_without_itself_and_ends_when_revoked(keyed: Place) -> None:
    with keyed.client("admin") as client:
        body = {"name": "für 团队", "role": "editor", "expires_at": "2099-01-01T00:00:00+08:00"}
        made = client.post("/api/keys", json=body)
        assert made.status_code == 201
        new = made.json()
        with httpx2.Client(base_url=keyed.url, headers={"X-API-Key": new["key"]}) as other:
            assert other.get("/api/me").json() == {"key_id": new["key_id"], "role": "editor", "bases": None}
            listed = client.get("/api/keys?limit=200")
            assert new["key"] not in listed.text
            facts = next(item for item in listed.json()["items"] if item["key_id"] == new["key_id"])
            assert (facts["name"], facts["prefix"]) == ("für 团队", new["key"][:9])
            assert facts["last_used_at"] is not None
            assert client.delete(f"/api/keys/{new['key_id']}").json()["revoked_at"] is not None
            assert problem(other.get("/api/me")) == (401, "access.key_revoked")
        changes = client.get("/api/audit", params={"limit": 2}).json()["items"]
        assert [(item["action"], item["subject"]) for item in changes] == [
            ("key.revoke", new["key_id"]),
            ("key.create", new["key_id"]),
        ]
        assert new["key"] not in client.get("/api/audit?limit=200").text


# --- bodies ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b'{"name": "k", "role": ', "application/json", (422, "access.invalid")),
        (b"", "application/json", (422, "access.invalid")),
        (b"null", "application/json", (422, "access.invalid")),
        (b"[]", "application/json", (422, "access.invalid")),
        (b'{"name": "k", "role": "reader", "extra": 1}', "application/json", (422, "access.invalid")),
        (b'{"name": "k", "role": "owner"}', "application/json", (422, "access.invalid")),
        (b'{"name": ["k"], "role": "reader"}', "application/json", (422, "access.invalid")),
        (b'{"name": "k", "role": "reader", "per_minute": NaN}', "application/json", (422, "access.invalid")),
        (b'{"name": "k", "role": "reader", "per_minute": 1e99}', "application/json", (422, "access.invalid")),
        (
            b'{"name": "k", "role": "reader", "per_minute": ' + b"9" * 5_000 + b"}",
            "application/json",
            (400, "access.body"),
        ),
        (
            b'{"name": "k", "role": "reader", "per_minute": 99999999999999999999}',
            "application/json",
            (422, "access.invalid"),
        ),
        (
            b'{"name": "k", "role": "reader", "expires_at": "2030-01-01T00:00:00"}',
            "application/json",
            (422, "access.invalid"),
        ),
        (b'{"name": "a\\u0000b", "role": "reader"}', "application/json", (422, "access.body_text")),
        (b'{"name": "\\ud800", "role": "reader"}', "application/json", (422, "access.body_text")),
        (b'{"name": "\\udc00\\ud800", "role": "reader"}', "application/json", (422, "access.body_text")),
        (b'{"name": "a\x00b", "role": "reader"}', "application/json", (422, "access.body_text")),
        (b'{"name": "\xff\xfe", "role": "reader"}', "application/json", (422, "access.body_text")),
        ('{"name": "k", "role": "reader"}'.encode("utf-16"), "application/json", (422, "access.body_text")),
        (b'{"name": "a\\u202eb", "role": "reader"}', "application/json", (422, "access.key_name")),
        (b'{"name": "\\u200b", "role": "reader"}', "application/json", (422, "access.key_name")),
        (b'{"name": "a\\nb", "role": "reader"}', "application/json", (422, "access.key_name")),
        (b'{"name": "' + b" " * 60 + b'", "role": "reader"}', "application/json", (422, "access.key_name")),
        (b"[" * 200_000, "application/json", (400, "access.body")),
        (b'{"name":' * 100_000 + b"1" + b"}" * 100_000, "application/json", (400, "access.body")),
        (b'{"name": "k", "role": "reader"}', "text/plain", (415, "access.body_type")),
        (b'{"name": "k", "role": "reader"}', "", (415, "access.body_type")),
        (b"name=k&role=reader", "application/x-www-form-urlencoded", (415, "access.body_type")),
        (b"<k/>", "application/xml", (415, "access.body_type")),
        (b"--x\r\n\r\n1\r\n--x--", "multipart/form-data; boundary=x", (415, "access.body_type")),
        (b"x" * 10_000_000, "application/json", (413, "access.body_size")),
    ],
    ids=str,
)  # fmt: skip
def test_a_body_that_is_no_request_is_refused_by_name(
    keyed: Place, body: bytes, content_type: str, expected: tuple[int, str]
) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    with keyed.client("admin") as client:
        before = client.get("/api/keys").json()["total"]
        try:
            response = client.post("/api/keys", content=body, headers=headers)
        except httpx2.NetworkError:  # refused before all of it was sent
            assert expected[0] == 413
        else:
            assert problem(response) == expected
        assert client.get("/api/keys").json()["total"] == before


def test_a_body_of_unknown_length_is_counted_and_one_cut_off_changes_nothing(keyed: Place) -> None:
    with keyed.client("admin") as client:
        before = client.get("/api/keys").json()["total"]
        try:
            response = client.post(
                "/api/keys",
                content=(b'{"x": "' if not number else b"y" * 100_000 for number in range(30)),
                headers={"Content-Type": "application/json"},
            )
        except httpx2.NetworkError:
            pass
        else:
            assert problem(response) == (413, "access.body_size")
        place = urlsplit(keyed.url)
        head = (
            f"POST /api/keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {keyed.keys['admin']}\r\n"
            "Content-Type: application/json\r\nContent-Length: 31\r\n\r\n"
        )
        with socket.create_connection((place.hostname, place.port), timeout=ANSWER_S) as connection:
            connection.sendall(head.encode() + b'{"name": "k", "role"')
        text = json.dumps({"name": "a literal \\u0000 and 😀", "role": "reader"})
        made = client.post("/api/keys", content=text, headers={"Content-Type": "application/json"})
        assert made.json()["name"] == "a literal \\u0000 and 😀"
        assert client.get("/api/keys").json()["total"] == before + 1


def test_what_is_wrong_is_said_field_by_field_in_the_callers_language(keyed: Place) -> None:
    with keyed.client("admin") as client:
        body = {"role": "owner", "bases": "all", "per_minute": 0, "no_such": "secret words"}
        for language, detail in (("en-GB,en", "missing"), ("zh-CN,zh;q=0.9,en;q=0.8", "缺少该值")):
            response = client.post("/api/keys", json=body, headers={"Accept-Language": language})
            assert problem(response) == (422, "access.invalid")
            errors = {item["where"]: item for item in response.json()["errors"]}
            assert set(errors) == {f"body.{name}" for name in (*body, "name")}
            assert detail in errors["body.name"]["detail"]
            assert errors["body.no_such"]["code"] == "access.field_extra_forbidden"
            assert "secret words" not in response.text
        for query in ("limit=0", "limit=201", "offset=-1", "offset=99999999999999999999", "limit=a"):
            assert problem(client.get(f"/api/keys?{query}")) == (422, "access.invalid"), query
        assert problem(client.put("/api/keys"))[0] == 405
        assert client.put("/api/keys").headers["allow"]


def test_every_answer_carries_the_headers_that_keep_it_data(keyed: Place) -> None:
    with keyed.client("reader") as client:
        for response in (client.get("/api/me"), client.get("/nothing"), client.get("/healthz")):
            headers = response.headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cache-control"] == "no-store"
            assert "default-src 'none'" in headers["content-security-policy"]
            assert re.fullmatch("[0-9a-f]{16}", headers["x-request-id"])
            assert "server" not in headers


# --- logs and start ----------------------------------------------------------------


def test_w33_the_log_says_what_was_asked_for_by_route_and_never_in_words(keyed: Place) -> None:
    canary = "Zwergsalamander"
    with keyed.client("admin") as client:
        client.get(f"/api/audit?action={canary}", headers={"X-Request-ID": "canary-1"})
        client.get(f"/{canary}?q={canary}", headers={"X-Request-ID": "canary-2"})
        client.post("/api/keys", json={"name": canary, "role": canary}, headers={"User-Agent": canary})
        for path, name in (("ask", "question"), ("ask/stream", "question"), ("search", "query")):
            assert client.post(f"/api/{path}", json={name: f"What does a {canary} eat?"}).status_code == 200
        base_id = client.post("/api/bases", json={"name": canary}).json()["base_id"]
        # A file that cannot be read is the sender's matter, not a fault of the server.
        for content in (b"", b"\x00\x01\x02" * 500):
            sent = client.post(
                f"/api/bases/{base_id}/documents", files=[("files", (f"{canary}.pdf", content))]
            )
            assert 400 <= sent.status_code < 500, sent.text
        me = client.get("/api/me").json()
    lines = keyed.log()
    text = log_of(keyed.home).read_text(encoding="utf-8")
    assert canary not in text
    assert not [secret for secret in keyed.keys.values() if secret in text]
    logged = {line["request_id"]: line for line in lines if line["event"] == "request"}
    assert (logged["canary-1"]["route"], logged["canary-1"]["status"]) == ("/api/audit", 422)
    assert (logged["canary-2"]["route"], logged["canary-2"]["status"]) == (None, 404)
    assert logged["canary-1"]["key_id"] == me["key_id"]
    assert logged["canary-1"]["method"] == "GET"
    assert logged["canary-1"]["ms"] >= 0
    assert {"timestamp", "level", "logger"} <= set(logged["canary-1"])


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"host": "0.0.0.0"}, ("RAGSTONE_HOST", "ragstone key create")),
        ({"host": "no.such.host.invalid"}, ("RAGSTONE_HOST",)),
        ({"cors_origins": "*"}, ("cors_origins", "https://host")),
        ({"blob_url": "ftp://x"}, ("s3://",)),
        ({"redis_url": "http://x"}, ("redis",)),
        ({"database_url": "postgresql://127.0.0.1:1/x"}, ("RAGSTONE_DATABASE_URL",)),
    ],
    ids=str,
)
def test_a_wrong_setting_is_named_before_anything_is_served(
    opened: Place, settings: dict[str, str], named: tuple[str, ...]
) -> None:
    done = ragstone(opened.home, "serve", *([] if "port" in settings else ["--port", "0"]), **settings)
    assert done.returncode in (1, 2)
    assert "http://" not in done.stdout
    assert "Traceback" not in done.stderr
    for word in named:
        assert word in done.stderr, done.stderr


def test_a_port_in_use_is_named(opened: Place) -> None:
    port = str(urlsplit(opened.url).port)
    done = ragstone(opened.home, "serve", "--port", port, lang="zh")
    assert done.returncode == 2
    assert port in done.stderr
    assert "--port" in done.stderr
    assert "无法监听" in done.stderr


def test_a_key_made_meanwhile_shuts_an_open_server(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serving(home) as url, httpx2.Client(base_url=url, timeout=ANSWER_S) as client:
        assert client.get("/api/me").status_code == 200
        made = client.post("/api/keys", json={"name": "first", "role": "admin"}).json()
        assert problem(client.get("/api/me")) == (401, "access.key_missing")
        bearer = {"Authorization": f"Bearer {made['key']}"}
        assert client.get("/api/me", headers=bearer).json()["role"] == "admin"
        # Behind a proxy, under any name: the key is what counts.
        named = {**bearer, "Host": "kb.example.com", "X-Forwarded-For": "203.0.113.7"}
        assert client.get("/api/me", headers=named).status_code == 200
        assert client.delete(f"/api/keys/{made['key_id']}", headers=bearer).status_code == 200
        assert problem(client.get("/api/me", headers=bearer)) == (401, "access.key_revoked")
        assert problem(client.get("/api/me")) == (401, "access.key_missing")
    assert "no valid" in ragstone(home, "serve", "--port", "0", host="0.0.0.0").stderr.replace(
        "that is valid", "no valid"
    )


def test_serve_says_its_address_to_programs(opened: Place) -> None:
    with process("serve", "--port", "0", "--json", home=opened.home) as running:
        assert running.stdout is not None
        url = json.loads(running.stdout.readline())["url"]
        assert httpx2.get(f"{url}/healthz", timeout=ANSWER_S).status_code == 200
