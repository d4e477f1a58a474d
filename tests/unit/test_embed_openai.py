"""The OpenAI-compatible embedder, against a real HTTP server on the loopback."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from ragstone.embed.openai import OpenAIEmbedder
from ragstone.errors import (
    ContentRefused,
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    TextTooLong,
    Transient,
)
from ragstone.protocols import Embedder

pytestmark = pytest.mark.anyio

KEY = "sk-secret-1234567890"


def vector(text: str) -> list[float]:
    return [float(len(text)), 1.0, 2.0]


def well(body: dict[str, Any]) -> tuple[int, Any]:
    data = [{"index": i, "embedding": vector(text)} for i, text in enumerate(body["input"])]
    return 200, {
        "data": data,
        "model": body["model"],
        "usage": {"prompt_tokens": 7 * len(data), "total_tokens": 0},
    }


class Server:
    """Answers POST /v1/embeddings with `answer`, and keeps what it was sent."""

    def __init__(self) -> None:
        self.answer: Callable[[dict[str, Any]], tuple[int, Any]] = well
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.bodies.append(body)
                server.headers.append({name.lower(): value for name, value in self.headers.items()})
                server.paths.append(self.path)
                status, answer = server.answer(body)
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.send_header("retry-after-ms", "1")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    @property
    def inputs(self) -> list[list[str]]:
        return [body["input"] for body in self.bodies]


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.http.shutdown()
    server.http.server_close()
    thread.join(10)


@asynccontextmanager
async def opened(server: Server, **options: Any) -> AsyncIterator[OpenAIEmbedder]:
    options = {"base_url": server.url, "model": "m", "api_key": KEY, "dimension": 3, **options}
    embedder = await OpenAIEmbedder.open(**options)
    try:
        yield embedder
    finally:
        await embedder.aclose()


async def test_the_dimension_is_found_with_one_request(server: Server) -> None:
    async with opened(server, dimension=None) as embedder:
        assert isinstance(embedder, OpenAIEmbedder)
        seam: Embedder = embedder
        assert seam.dimension == 3
        assert seam.identity == f"openai/m/{seam.dimension}"
    assert len(server.bodies) == 1


async def test_vectors_are_unit_length_in_order_and_asked_for_as_floats(server: Server) -> None:
    async with opened(server) as embedder:
        vectors = await embedder.embed_documents(["a", "bbbb"])
    expected = np.array([vector("a"), vector("bbbb")])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors.values, expected, rtol=1e-6)
    assert vectors.values.dtype == np.float32
    assert vectors.tokens == 14
    assert server.paths == ["/v1/embeddings"]
    assert server.bodies[0]["encoding_format"] == "float"


async def test_c22_25_equal_texts_become_three_requests_and_none_is_merged(server: Server) -> None:
    async with opened(server) as embedder:
        vectors = await embedder.embed_documents(["same"] * 25)
    assert [len(texts) for texts in server.inputs] == [10, 10, 5]
    assert len(vectors) == 25


async def test_blank_texts_are_never_sent_and_the_rest_stays_aligned(server: Server) -> None:
    async with opened(server) as embedder:
        vectors = await embedder.embed_documents(["a", "", " \n", "\x00", "dd"])
        await embedder.embed_queries([" "])
    assert server.inputs == [["a", "dd"]]
    assert [bool(row.any()) for row in vectors.values] == [True, False, False, False, True]


async def test_nul_and_lone_surrogates_do_not_reach_the_server(server: Server) -> None:
    async with opened(server) as embedder:
        await embedder.embed_documents(["a\x00b\ud800c"])
    assert server.inputs == [["ab?c"]]


async def test_prefixes_are_put_in_front_and_are_part_of_the_identity(server: Server) -> None:
    async with opened(server, query_prefix="query: ", document_prefix="passage: ") as embedder:
        await embedder.embed_queries(["q"])
        await embedder.embed_documents(["d"])
        assert embedder.identity.startswith(f"openai/m/{embedder.dimension}/")
    assert server.inputs == [["query: q"], ["passage: d"]]


async def test_a_passage_beyond_the_limit_is_named_and_nothing_is_sent(server: Server) -> None:
    async with opened(server, max_tokens=5) as embedder:
        with pytest.raises(TextTooLong, match=r"Text 1 has 6 tokens"):
            await embedder.embed_documents(["好", "一二三四五六"])
        await embedder.embed_queries(["一二三四五六"])
    assert server.inputs == [["一二三四五"]]


async def test_vectors_are_put_in_order_by_their_index(server: Server) -> None:
    def shuffled(body: dict[str, Any]) -> tuple[int, Any]:
        status, answer = well(body)
        answer["data"].reverse()
        return status, answer

    server.answer = shuffled
    async with opened(server) as embedder:
        values = (await embedder.embed_documents(["a", "bbbbbbbb", "cc"])).values
    assert values[1, 0] > values[2, 0] > values[0, 0]


async def test_vectors_without_an_index_are_taken_as_they_come(server: Server) -> None:
    server.answer = lambda body: (200, {"data": [{"embedding": vector(text)} for text in body["input"]]})
    async with opened(server) as embedder:
        vectors = await embedder.embed_documents(["a", "bbbbbbbb"])
    assert vectors.values[1, 0] > vectors.values[0, 0]
    assert vectors.tokens == 0


def rows(*pairs: tuple[object, object]) -> dict[str, object]:
    return {"data": [{"index": index, "embedding": embedding} for index, embedding in pairs]}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (rows((0, [1, 2, 3])), "1 of 2 vectors"),
        (rows((0, [1, 2, 3]), (5, [1, 2, 3])), r"index \[0, 5\] for 2 texts"),
        (rows((0, [1, 2, 3]), (0, [1, 2, 3])), r"index \[0, 0\] for 2 texts"),
        (rows((0, [1, 2]), (1, [1, 2, 3])), r"vectors differ in length \(2, 3\)"),
        (rows((0, [1, 2]), (1, [1, 2])), "vectors of 2 numbers for model m, but 3 before"),
        (rows((0, []), (1, [])), "not a list of numbers"),
        (rows((0, "AAAA"), (1, "AAAA")), "not a list of numbers"),
        (rows((0, [1, 2, float("nan")]), (1, [1, 2, 3])), "not finite"),
        (rows((0, [1, 2, float("inf")]), (1, [1, 2, 3])), "not finite"),
        (rows((0, [1, 2, "x"]), (1, [1, 2, 3])), "no number"),
        (rows((0, [1, 2, 10**400]), (1, [1, 2, 3])), "no number|no embeddings"),
        (rows((0, [1, 2, 1e200]), (1, [1, 2, 3])), "too large"),
        ({"error": "odd"}, "no list of vectors"),
        ([], "no list of vectors"),
        (b"<html>hello</html>", "not JSON|no list of vectors"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_an_error_that_says_why(
    server: Server, answer: object, reason: str
) -> None:
    server.answer = lambda body: (200, answer)
    async with opened(server) as embedder:
        with pytest.raises(ProviderError, match=reason) as caught:
            await embedder.embed_documents(["a", "b"])
    assert not isinstance(caught.value, Transient)
    assert server.url in str(caught.value)


async def test_a_4xx_is_refused_at_once_without_the_key_or_a_long_text(server: Server) -> None:
    server.answer = lambda body: (401, {"error": {"message": f"bad key {KEY}\n" + "x" * 5000}})
    async with opened(server) as embedder:
        with pytest.raises(ProviderRejected, match="HTTP 401") as caught:
            await embedder.embed_documents(["a"])
    assert KEY not in str(caught.value)
    assert KEY not in caught.value.text("zh")
    assert "bad key ***" in str(caught.value)
    assert len(str(caught.value)) < 500
    assert caught.value.__cause__ is None
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        ({"message": "no", "code": "content_filter"}, True),
        ({"message": "no", "code": "data_inspection_failed", "type": "invalid_request_error"}, True),
        ({"message": "the content_filter has no opinion", "code": "invalid_value"}, False),
    ],
)
async def test_a_content_filter_is_known_by_its_code_and_not_by_the_message(
    server: Server, error: dict[str, str], refused: bool
) -> None:
    server.answer = lambda body: (400, {"error": error})
    async with opened(server) as embedder:
        with pytest.raises(ProviderRejected) as caught:
            await embedder.embed_documents(["a"])
    assert isinstance(caught.value, ContentRefused) is refused


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_c21_a_busy_server_is_tried_again_and_then_unavailable(server: Server, status: int) -> None:
    server.answer = lambda body: (status, {"error": {"message": "busy"}})
    async with opened(server) as embedder:
        with pytest.raises(ProviderUnavailable, match=f"HTTP {status}"):
            await embedder.embed_documents(["a"])
        assert len(server.bodies) == 3
        server.answer = well
        assert len(await embedder.embed_documents(["a"])) == 1


async def test_a_second_try_that_works_is_no_error(server: Server) -> None:
    server.answer = lambda body: well(body) if len(server.bodies) > 1 else (503, {})
    async with opened(server) as embedder:
        assert len(await embedder.embed_documents(["a"])) == 1


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    gone = Server()
    gone.http.server_close()
    with pytest.raises(ProviderUnavailable, match="no connection"):
        await OpenAIEmbedder.open(base_url=gone.url, model="m")


async def test_a_server_that_does_not_answer_is_a_time_out(server: Server) -> None:
    release = threading.Event()

    def silent(body: dict[str, Any]) -> tuple[int, Any]:
        release.wait(30)
        return 500, {}

    server.answer = silent
    started = time.monotonic()
    try:
        async with opened(server, timeout=0.05) as embedder:
            with pytest.raises(ProviderUnavailable, match="time-out"):
                await embedder.embed_documents(["a"])
    finally:
        release.set()
    assert time.monotonic() - started < 25


async def test_what_the_environment_holds_for_another_server_is_not_sent(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "private-thing")
    async with opened(server, api_key="") as embedder:
        await embedder.embed_documents(["a"])
    async with opened(server) as embedder:
        await embedder.embed_documents(["a"])
    assert "authorization" not in server.headers[0]
    assert server.headers[1]["authorization"] == f"Bearer {KEY}"
    assert "private-thing" not in json.dumps(server.headers)


async def test_the_address_in_an_error_holds_no_password(server: Server) -> None:
    server.answer = lambda body: (400, {"error": {"message": "no"}})
    with pytest.raises(ProviderRejected) as caught:
        await OpenAIEmbedder.open(base_url=server.url.replace("://", "://user:pass@"), model="m")
    assert "pass@" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("检索 embedding", ["检", "索", "embe", "ddin", "g"]),
        ("año 2024, да!", ["año", "2", "0", "2", "4", ",", "да", "!"]),
        ("snake_case\n\t", ["snak", "e", "_", "case"]),
        ("", []),
    ],
)
async def test_estimated_tokens_have_exact_offsets(server: Server, text: str, pieces: list[str]) -> None:
    async with opened(server) as embedder:
        tokenizer = embedder.tokenizer
    assert [text[start:end] for start, end in tokenizer.offsets(text)] == pieces
    assert tokenizer.count(text) == len(pieces)
