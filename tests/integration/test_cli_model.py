"""Answers written by a chat model: a real HTTP server on the loopback, and the real command."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from command_line import TIMEOUT, CommandLine, Watched

BASE = "of-the-model"


class ChatServer:
    """Streams `pieces` to every question; before a piece "wait" it waits until `go` is set."""

    def __init__(self) -> None:
        self.pieces = ["The ferry leaves ", "at 22:15 [1]", "."]
        self.go = threading.Event()
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.status = 200
        self.body: bytes | None = None
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.keys.append(self.headers["Authorization"])
                self.send_response(server.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_POST(self) -> None:
                server.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                server.keys.append(self.headers["Authorization"])
                self.send_response(server.status)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                if server.body is not None:
                    self.wfile.write(server.body)
                if server.status != 200 or server.body is not None:
                    return
                for piece in server.pieces:
                    if piece == "wait":
                        server.go.wait(TIMEOUT)
                    else:
                        self._send(
                            {"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]}
                        )
                self._send({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
                self.wfile.write(b"data: [DONE]\n\n")

            def _send(self, chunk: dict[str, Any]) -> None:
                value = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", **chunk}
                try:
                    self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
                    self.wfile.flush()
                except OSError:  # the client has left
                    server.go.set()

            def log_message(self, format: str, *args: Any) -> None:
                """Keep quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.go.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join(TIMEOUT)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    server = ChatServer()
    yield server
    server.stop()


@pytest.fixture
def told(ragstone: CommandLine, server: ChatServer) -> CommandLine:
    """The command with that chat model and one document."""
    settings = {
        "RAGSTONE_CHAT_BASE_URL": server.url,
        "RAGSTONE_CHAT_MODEL": "m",
        "RAGSTONE_CHAT_API_KEY": "sk-test",
    }
    command = CommandLine(home=ragstone.home, folder=ragstone.folder, settings=settings)
    folder = ragstone.home / "model documents"
    if not folder.exists():
        folder.mkdir()
        text = "# Ferry\n\nThe ferry leaves Halm at 22:15. Dogs travel free of charge.\n"
        (folder / "ferry.md").write_text(text)
        assert command("add", folder, "--base", BASE).code == 0
    return command


def test_the_model_answers_and_its_citations_are_checked(told: CommandLine, server: ChatServer) -> None:
    value = told("ask", "When does the ferry leave?", "--base", BASE, "--json").json
    assert (value["mode"], value["answered"], value["degraded"]) == ("model", True, [])
    assert value["answer"] == "The ferry leaves at 22:15 [1]."
    assert value["citations"][0]["n"] == 1
    assert server.keys == ["Bearer sk-test"]
    server.pieces = ["The ferry leaves ", "at 22:15 [1][7]", "."]
    asking = Watched(told, "ask", "When does the ferry leave?", "--base", BASE)
    assert asking.end() == 0
    assert "The ferry leaves at 22:15" in asking.shown
    assert "[7]" not in told("ask", "When does the ferry leave?", "--base", BASE).out
    assert "RAGSTONE_CHAT_BASE_URL" not in asking.shown


def test_a_refusal_is_exit_code_3(told: CommandLine, server: ChatServer) -> None:
    server.pieces = ["<no-answer/>"]
    ended = told("ask", "When does the ferry leave?", "--base", BASE)
    assert ended.code == 3
    assert ended.out.strip()
    assert "no-answer" not in ended.out
    assert told("ask", "When does the ferry leave?", "--base", BASE, "--json").json["answered"] is False


def test_d9_without_its_model_the_answer_is_quoted_and_says_so(told: CommandLine, server: ChatServer) -> None:
    server.status = 401
    ended = told("ask", "When does the ferry leave Halm?", "--base", BASE)
    assert ended.code == 0
    assert "22:15" in ended.out
    assert "The chat model did not answer" in ended.err
    value = told("ask", "When does the ferry leave Halm?", "--base", BASE, "--json").json
    assert (value["mode"], value["degraded"]) == ("extractive", ["chat_failed"])


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (200, None, "doctor.chat"),
        (200, b"<html>Welcome</html>", "chat.cut"),
        (200, b"", "chat.cut"),
        (401, b"{}", "chat.key"),
        (404, b'{"error": {"message": "model m not found"}}', "chat.not_found"),
        (500, b"{}", "chat.busy"),
    ],
)
def test_doctor_asks_the_chat_model_for_a_token(
    told: CommandLine, server: ChatServer, status: int, body: bytes | None, code: str
) -> None:
    """A server without a list of models that answers is fine; one with a list that does not is not."""
    server.status, server.body = status, body
    checks = told("doctor", "--json").json["checks"]
    assert (checks[-1]["name"], checks[-1]["code"]) == ("chat", code)
    assert checks[-1]["status"] == ("ok" if code == "doctor.chat" else "failed")
    assert server.requests[-1]["max_tokens"] == 1


def test_doctor_gives_up_a_model_that_hangs_and_asks_none_offline(
    told: CommandLine, server: ChatServer
) -> None:
    server.pieces = ["wait"]
    last = told("doctor", "--json").json["checks"][-1]
    assert (last["status"], last["code"]) == ("failed", "chat.timeout")
    asked = len(server.requests)
    last = told("doctor", "--offline", "--json").json["checks"][-1]
    assert (last["status"], last["code"]) == ("note", "doctor.offline")
    assert len(server.requests) == asked


def test_doctor_asks_the_reranker_to_rank(told: CommandLine, server: ChatServer) -> None:
    server.status, server.body = 500, b"{}"
    reranking = {"RAGSTONE_RERANK_KIND": "tei", "RAGSTONE_RERANK_BASE_URL": server.url}
    checks = {check["name"]: check for check in told("doctor", "--json", **reranking).json["checks"]}
    assert (checks["reranker"]["status"], checks["reranker"]["code"]) == ("failed", "rerank.unavailable")


def test_c40_a_conversation_remembers_and_ctrl_c_stops_an_answer(
    told: CommandLine, server: ChatServer
) -> None:
    talking = Watched(told, "chat", "--base", BASE)
    talking.wait_for("> ")
    talking.type("When does the ferry leave?\n")
    talking.wait_for("ferry.md")
    talking.wait_for(lambda shown: shown.rpartition("ferry.md")[2].rstrip().endswith(">"))
    server.pieces = ["Dogs travel free of charge [1]. ", "Slowly told. And ", "wait", "never seen"]
    talking.type("And the dogs?\n")
    talking.wait_for("Slowly told")
    talking.interrupt("Ctrl-C again leaves")
    server.go.set()
    server.pieces = ["They travel free [1]."]
    talking.type("What do they pay?\n")
    talking.wait_for("They travel free")
    talking.type("/exit\n")
    assert talking.end() == 0
    assert "never seen" not in talking.shown
    written = [
        [message["content"] for message in request["messages"][1:-1]]
        for request in server.requests
        if len(request["messages"]) > 1
    ]
    first = ["When does the ferry leave?", "The ferry leaves at 22:15 [1]."]
    assert written[1][:2] == first
    # What was stopped is remembered too, and marked.
    assert written[2][:2] == first
    assert written[2][2] == "And the dogs?"
    assert written[2][3].startswith("Dogs travel free of charge [1]. Slowly told.")
    assert written[2][3].endswith("[…]")


def test_d6_what_the_audit_finds_is_shown_under_the_answer(told: CommandLine, server: ChatServer) -> None:
    """A wrong number with a true source, a marker of no passage, and an answer without any citation."""
    question = ("ask", "When does the ferry leave?", "--base", BASE)
    assert told(*question, "--json").json["needs_review"] is False
    server.pieces = ["The ferry leaves at 23:59 [1][9]."]
    ended = told(*question)
    assert "Not in the cited passages: 23:59" in ended.err or "23, 59" in ended.err
    assert "[9]" in ended.err
    assert told(*question, "--json").json["needs_review"] is True
    server.pieces = ["The ferry leaves at 22:15."]
    assert "No sentence of this answer names a source" in told(*question).err
    assert told(*question, "--json").json["needs_review"] is True


def test_a_person_is_told_that_the_answer_is_awaited_and_can_stop(
    told: CommandLine, server: ChatServer
) -> None:
    server.pieces = ["wait", "The ferry leaves at 22:15 [1]."]
    asking = Watched(told, "ask", "When does the ferry leave?", "--base", BASE)
    asking.wait_for("Waiting for the chat model")
    assert asking.end_by(signal.SIGINT) == 130
