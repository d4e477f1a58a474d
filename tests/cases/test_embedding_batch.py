"""The shared cases of what an embedding server may answer to a batch."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ragstone.embed.openai import OpenAIEmbedder
from ragstone.errors import ProviderError, TextTooLong

pytestmark = pytest.mark.anyio

FILE = Path(__file__).resolve().parents[3] / "shared" / "cases" / "embedding_batch.jsonl"
if not FILE.is_file():
    pytest.skip("no shared cases beside the checkout", allow_module_level=True)
CASES: list[dict[str, Any]] = [
    json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines() if line
]
ANSWERED = [case for case in CASES if "response" in case]
TOLD = [case for case in CASES if "response" not in case]


class Server(ThreadingHTTPServer):
    """Sends `data`; without it, a vector for each text. Keeps the texts of each request."""

    data: list[dict[str, Any]] | None = None

    def __init__(self) -> None:
        self.inputs: list[list[str]] = []
        super().__init__(("127.0.0.1", 0), Handler)

    def answer(self, body: dict[str, Any]) -> bytes:
        self.inputs.append(body["input"])
        vectors = [{"index": index, "embedding": [1.0, index]} for index in range(len(body["input"]))]
        return json.dumps({"data": self.data if self.data is not None else vectors}).encode()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        answer = self.server.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(10)


async def opened(server: Server, dimension: int) -> OpenAIEmbedder:
    url = f"http://127.0.0.1:{server.server_port}/v1"
    return await OpenAIEmbedder.open(base_url=url, model="m", dimension=dimension)


@pytest.mark.parametrize(
    "case", ANSWERED, ids=lambda case: case["expected"] if isinstance(case["expected"], str) else "order"
)
async def test_an_answer_is_put_in_order_or_refused(server: Server, case: dict[str, Any]) -> None:
    # Vectors of the cases are numbers that name their text; lengths are normalised, so they get a second one.
    server.data = [{**item, "embedding": [*item["embedding"], 1.0]} for item in case["response"]]
    embedder = await opened(server, len(server.data[0]["embedding"]))
    try:
        if isinstance(case["expected"], list):
            values = (await embedder.embed_documents(case["inputs"])).values
            assert (values[:, :1] / values[:, 1:]).round(4).tolist() == case["expected"]
            return
        with pytest.raises(ProviderError) as caught:
            await embedder.embed_documents(case["inputs"])
        said = {"naming 2 of 3": "2 of 3", "out of range": r"index \[5\]", "dimensions differ": r"\(3, 4\)"}
        expected = next(pattern for words, pattern in said.items() if words in case["expected"])
        assert re.search(expected, str(caught.value))
    finally:
        await embedder.aclose()


def test_the_cases_told_in_words_are_those_played_below() -> None:
    words = [json.dumps(case) for case in TOLD]
    assert len(words) == 3
    assert "empty text never sent" in words[0]
    assert "3 requests of 10,10,5" in words[1]
    assert "above the model token limit" in words[2]


async def test_the_cases_told_in_words(server: Server) -> None:
    embedder = await opened(server, 2)
    try:
        values = (await embedder.embed_documents(TOLD[0]["inputs"])).values
        assert server.inputs == [["a", "d"]]
        assert [bool(row.any()) for row in values] == [True, False, True]
        server.inputs.clear()
        await embedder.embed_documents(["equal"] * 25)
        assert [len(texts) for texts in server.inputs] == [10, 10, 5]
        with pytest.raises(TextTooLong, match="Text 1"):
            await embedder.embed_documents(["short", "字" * (embedder.max_tokens + 1)])
    finally:
        await embedder.aclose()
