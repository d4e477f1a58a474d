"""The OpenAI chat adapter against a real HTTP server on the loopback."""

from __future__ import annotations

import json
import os
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import pytest

from ragstone.chat.openai import OpenAIChatModel
from ragstone.chat.sse import EventReader
from ragstone.errors import ProviderRejected, ProviderUnavailable
from ragstone.types import Delta, Message, Usage

pytestmark = pytest.mark.anyio
ASK = (Message(role="user", content="What colour is the sky?"),)
KEY = "sk-secret-0123456789"
WAIT = 10.0


class Server:
    """Plays one reply a request: (status, headers, pieces of the body)."""

    def __init__(self) -> None:
        self.replies: list[tuple[int, dict[str, str], list[bytes] | Callable[[Any], None]]] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.gone = threading.Event()
        self.release = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                outer.requests.append(json.loads(self.rfile.read(length)))
                outer.headers.append(dict(self.headers))
                turn = min(len(outer.requests), len(outer.replies)) - 1
                status, headers, body = outer.replies[turn]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if callable(body):
                    body(self)
                    return
                for piece in body:
                    self.wfile.write(piece)
                    self.wfile.flush()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def stop(self) -> None:
        self.release.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(WAIT)

    def streams(self, body: bytes, *, cut: int = 0) -> None:
        """The next reply is an event stream, sent `cut` bytes at a time."""
        pieces = [body[at : at + cut] for at in range(0, len(body), cut)] if cut else [body]
        self.replies.append((200, {"Content-Type": "text/event-stream"}, pieces))

    def answers(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.replies.append((status, {"Content-Type": "application/json"} | (headers or {}), [data]))


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.stop()


def event(text: str | None = None, *, finish: str | None = None, **fields: object) -> bytes:
    delta: dict[str, object] = {} if text is None else {"content": text}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunk |= {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} | fields
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
BLUE = event("蓝") + event("色👨‍👩‍👧\n\\n [1]") + event(finish="stop")


async def received(server: Server, **options: Any) -> list[Delta]:
    model = OpenAIChatModel(
        base_url=server.url, model="m", **{"api_key": KEY, "timeout": WAIT, "max_retries": 0} | options
    )
    try:
        with anyio.fail_after(2 * WAIT):
            return [delta async for delta in model.stream(ASK)]
    finally:
        await model.aclose()


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


@pytest.mark.parametrize("cut", [0, 1, 3, 50])
async def test_a_stream_arrives_whole_however_its_bytes_are_cut(server: Server, cut: int):
    server.streams(BLUE + event(choices=[], usage=USAGE) + DONE, cut=cut)
    deltas = await received(server)
    assert text_of(deltas) == "蓝色👨‍👩‍👧\n\\n [1]"
    assert deltas[-1].usage == Usage(input_tokens=7, output_tokens=2)
    assert server.requests[0]["messages"] == [{"role": "user", "content": ASK[0].content}]
    assert server.requests[0]["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    "body",
    [
        BLUE,  # no [DONE]
        BLUE + DONE,  # no usage
        BLUE.rstrip(b"\n"),  # no blank line behind the last event
        BLUE.replace(b"\n\n", b"\r\n\r\n") + DONE,
        BLUE.replace(b"data: ", b"data:") + DONE,
        b": keep-alive\n\n" + event(choices=[]) + event(None) + BLUE + b": bye\n\n" + DONE,
        event(choices=None) + BLUE + DONE,
        b"event: message\nid: 7\n" + BLUE + DONE,
    ],
)
async def test_streams_of_compatible_servers_are_read(server: Server, body: bytes):
    server.streams(body, cut=7)
    assert text_of(await received(server)) == "蓝色👨‍👩‍👧\n\\n [1]"


@pytest.mark.parametrize(
    ("body", "kind", "key"),
    [
        (b'data: {"error":{"message":"quota exceeded"}}\n\n' + DONE, ProviderUnavailable, "chat.busy"),
        (event("Blue") + b'data: {"error":{"message":"x","code":500}}\n\n', ProviderUnavailable, "chat.busy"),
        (b'data: {"error":{"message":"no","code":"invalid_api_key"}}\n\n', ProviderRejected, "chat.rejected"),
        (b'data: {"error":{"message":"no","code":401}}\n\n', ProviderRejected, "chat.key"),
        (b'data: {"object":"error","message":"too long","code":400}\n\n', ProviderRejected, "chat.rejected"),
        (b'event: error\ndata: {"error":{"message":"down"}}\n\n', ProviderUnavailable, "chat.busy"),
        (b'data: {"code":"Throttling","message":"slow"}\n\n', ProviderUnavailable, "chat.busy"),
        (b"", ProviderUnavailable, "chat.cut"),
        (DONE, ProviderUnavailable, "chat.cut"),
        (event("Blu"), ProviderUnavailable, "chat.cut"),
        (b"data: Simple message\n\n", ProviderUnavailable, "chat.garbled"),
        (b"<html>hello</html>", ProviderUnavailable, "chat.cut"),
        (b"data: [1, 2]\n\n", ProviderUnavailable, "chat.garbled"),
        (b"data: " + b"[" * 5_000 + b"\n\n", ProviderUnavailable, "chat.garbled"),
        (b'data: {"error":{"code":"' + b"9" * 5_000 + b'"}}\n\n', ProviderUnavailable, "chat.busy"),
        (event("Blu") + event(finish="content_filter") + DONE, ProviderRejected, "chat.filtered"),
    ],
)
async def test_a_stream_that_is_no_answer_is_an_error(server: Server, body: bytes, kind: type, key: str):
    server.streams(body, cut=5)
    with pytest.raises(kind) as caught:
        await received(server)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("status", "body", "kind", "key", "named"),
    [
        (401, {"error": {"message": f"bad key {KEY}"}}, ProviderRejected, "chat.key", "key"),
        (403, {"error": {"message": "no"}}, ProviderRejected, "chat.key", "key"),
        (404, {"error": {"message": "no such model"}}, ProviderRejected, "chat.not_found", "'m'"),
        (404, b"<html>not found</html>", ProviderRejected, "chat.not_found", "/v1"),
        (400, {"error": {"message": "context too long"}}, ProviderRejected, "chat.rejected", "too long"),
        (429, {"error": {"message": "slow down"}}, ProviderUnavailable, "chat.busy", "429"),
        (
            429,
            {"error": {"message": "x", "code": "insufficient_quota"}},
            ProviderRejected,
            "chat.quota",
            "quota",
        ),
        (500, b"oops", ProviderUnavailable, "chat.busy", "500"),
        (503, {"detail": "starting"}, ProviderUnavailable, "chat.busy", "503"),
    ],
)
async def test_http_errors_become_ours_by_type_and_never_name_the_key(
    server: Server, status: int, body: object, kind: type, key: str, named: str
):
    server.answers(status, body)
    with pytest.raises(kind) as caught:
        await received(server)
    assert caught.value.key == key
    for language in ("en", "zh"):
        sentence = caught.value.text(language)
        assert KEY not in sentence
        assert server.url in sentence
    assert named in str(caught.value)
    assert len(server.requests) == 1


async def test_a_server_that_does_not_know_stream_options_is_asked_without_from_then_on(server: Server):
    server.answers(400, {"error": {"message": "unknown field: stream_options"}})
    server.streams(BLUE + DONE)
    model = OpenAIChatModel(base_url=server.url, model="m", timeout=WAIT, max_retries=0)
    for _ in range(2):
        assert text_of([delta async for delta in model.stream(ASK)]).startswith("蓝")
    await model.aclose()
    assert ["stream_options" in request for request in server.requests] == [True, False, False]


async def test_c21_busy_servers_are_asked_again(server: Server):
    server.answers(503, {}, {"Retry-After-Ms": "1"})
    server.streams(BLUE + DONE)
    assert text_of(await received(server, max_retries=1)).startswith("蓝")
    assert len(server.requests) == 2


async def test_a_server_that_stays_silent_is_given_up(server: Server):
    server.replies.append((200, {"Content-Type": "text/event-stream"}, lambda _: server.release.wait(WAIT)))
    with pytest.raises(ProviderUnavailable) as caught:
        await received(server, first_timeout=0.2)
    assert caught.value.key == "chat.timeout"


async def test_a_stream_that_falls_silent_is_given_up(server: Server):
    def half(handler: Any) -> None:
        handler.wfile.write(event("Blue"))
        handler.wfile.flush()
        server.release.wait(WAIT)

    server.replies.append((200, {"Content-Type": "text/event-stream"}, half))
    with pytest.raises(ProviderUnavailable) as caught:
        await received(server, timeout=0.3)
    assert caught.value.key == "chat.timeout"


async def test_no_server_and_a_cut_connection_are_unavailable(server: Server):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    model = OpenAIChatModel(base_url=closed, model="m", timeout=WAIT, max_retries=0)
    with pytest.raises(ProviderUnavailable) as caught:
        await model.complete(ASK)
    assert caught.value.key == "chat.connection"
    await model.aclose()
    chunked = {"Content-Type": "text/event-stream", "Content-Length": "9999"}
    server.replies.append((200, chunked, [event("Blue")]))
    with pytest.raises(ProviderUnavailable) as caught:
        await received(server)
    assert caught.value.key == "chat.connection"


@pytest.mark.parametrize("how", ["close", "cancel"])
async def test_c40_leaving_closes_the_connection(server: Server, how: str):
    def endless(handler: Any) -> None:
        handler.wfile.write(event("Blue"))
        handler.wfile.flush()
        handler.connection.settimeout(WAIT)
        if handler.connection.recv(1) == b"":
            server.gone.set()

    server.replies.append((200, {"Content-Type": "text/event-stream"}, endless))
    model = OpenAIChatModel(base_url=server.url, model="m", timeout=WAIT, max_retries=0)
    stream = model.stream(ASK)
    with anyio.fail_after(WAIT):
        assert (await anext(stream)).text == "Blue"
        if how == "cancel":
            with anyio.move_on_after(0.05):
                await anext(stream)
        else:
            await stream.aclose()  # pyright: ignore[reportAttributeAccessIssue]
        assert await anyio.to_thread.run_sync(server.gone.wait, WAIT)
    await model.aclose()


async def test_a_whole_answer_has_its_usage(server: Server):
    message = {"role": "assistant", "content": "Blue"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    server.answers(200, {"id": "c", "object": "chat.completion", "choices": [choice], "usage": USAGE})
    model = OpenAIChatModel(base_url=server.url, model="m", timeout=WAIT, options={"temperature": 0})
    assert await model.complete(ASK) == Delta(text="Blue", usage=Usage(input_tokens=7, output_tokens=2))
    await model.aclose()
    assert server.requests[0]["temperature"] == 0


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({"error": {"message": "down"}}, "chat.busy"),
        ({"choices": []}, "chat.cut"),
        ({"choices": [{"index": 0, "message": None, "finish_reason": "stop"}]}, "chat.cut"),
        (b"<html></html>", "chat.garbled"),
    ],
)
async def test_a_whole_answer_that_is_none_is_an_error(server: Server, body: object, key: str):
    server.answers(200, body)
    model = OpenAIChatModel(base_url=server.url, model="m", timeout=WAIT)
    with pytest.raises(ProviderUnavailable) as caught:
        await model.complete(ASK)
    await model.aclose()
    assert caught.value.key == key


async def test_nothing_of_the_environment_is_sent(server: Server, monkeypatch: pytest.MonkeyPatch):
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setitem(os.environ, name, "of-another-server")
    server.streams(BLUE + DONE)
    await received(server, api_key="")
    assert "of-another-server" not in json.dumps(server.headers[0])


EVENTS = [
    (b"data: one\n", [(None, "one")]),
    (b"\n\ndata: one\n\ndata: two\n\n", [(None, "one"), (None, "two")]),
    (b": note\nid: 7\nretry: 5\n\nevent: add\ndata:\ndata:\ndata: x \n\n", [("add", "\n\nx ")]),
    (b"data: a\r\ndata: b\r\n\r\ndata: c\r\rdata", [(None, "a\nb"), (None, "c"), (None, "")]),
    ("data:一\u2028二\n\n".encode(), [(None, "一\u2028二")]),
    (b"", []),
    (b"event: nothing\n\n", []),
]


@pytest.mark.parametrize(("stream", "expected"), EVENTS)
@pytest.mark.parametrize("cut", [1, 2, 5, 1000])
async def test_w16_events_are_read_however_the_bytes_are_cut(
    stream: bytes, expected: list[tuple[str | None, str]], cut: int
):
    reader = EventReader()
    events = [event for at in range(0, len(stream), cut) for event in reader.feed(stream[at : at + cut])]
    assert [*events, *reader.finish()] == expected


async def test_one_budget_holds_for_all_tries_until_the_first_byte(server: Server) -> None:
    """Tries that are refused at once and the pauses between them are of the same budget."""
    server.answers(503, {}, {"Retry-After": "30"})
    with pytest.raises(ProviderUnavailable) as caught:
        await received(server, timeout=0.4, max_retries=5)
    assert caught.value.key == "chat.timeout"
    assert len(server.requests) == 1


async def test_headers_alone_are_no_byte_of_an_answer(server: Server) -> None:
    server.replies.append((200, {"Content-Type": "text/event-stream"}, lambda _: server.release.wait(WAIT)))
    with pytest.raises(ProviderUnavailable) as caught:
        await received(server, timeout=0.3)
    assert caught.value.key == "chat.timeout"


async def test_an_answer_that_never_ends_is_given_up(server: Server) -> None:
    """Each byte comes in time, and the whole does not."""

    def drip(handler: Any) -> None:
        while not server.release.wait(0.02):
            handler.wfile.write(b": still here\n\n")
            handler.wfile.flush()

    server.replies.append((200, {"Content-Type": "text/event-stream"}, drip))
    with pytest.raises(ProviderUnavailable) as caught:
        await received(server, total_timeout=0.3)
    assert caught.value.key == "chat.timeout"


async def test_an_answer_at_its_limit_says_so(server: Server) -> None:
    server.streams(event("Blue") + event(finish="length") + DONE)
    deltas = await received(server)
    assert [(delta.text, delta.cut) for delta in deltas] == [("Blue", False), ("", True)]


async def test_the_key_is_in_no_traceback(server: Server) -> None:
    """A server that echoes the key in what it refuses with."""
    server.answers(401, {"error": {"message": f"bad key {KEY}", "code": KEY}}, {"X-Key": KEY})
    with pytest.raises(ProviderRejected) as caught:
        await received(server)
    shown = "".join(traceback.format_exception(caught.value))
    assert KEY not in shown
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


HALVES = "\\ud83d", "\\ude00"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (event("A").replace(b"A", HALVES[0].encode()) + event("B").replace(b"B", HALVES[1].encode()), "😀"),
        (b"data:\n\ndata: \n\n" + event("Blue"), "Blue"),
        (b"\xef\xbb\xbf" + event("Blue"), "Blue"),
        (
            event("X").replace(b'"X"', b'[{"type": "text", "text": "Bl"}, {"type": "text", "text": "ue"}]'),
            "Blue",
        ),
    ],
    ids=["halves of an emoji", "heartbeats", "byte order mark", "parts"],
)
@pytest.mark.parametrize("cut", [0, 1])
async def test_each_way_to_send_text_is_taken_as_meant(
    server: Server, body: bytes, text: str, cut: int
) -> None:
    server.streams(body + event(finish="stop") + DONE, cut=cut)
    assert text_of(await received(server)) == text
