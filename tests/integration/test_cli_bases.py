"""Adding, searching, asking, listing and removing with the real command and the embedded database."""

from __future__ import annotations

import json
import os
import signal
import uuid
from pathlib import Path

import pytest
from command_line import TIMEOUT, CommandLine, Watched

FERRY = "# Ferry\n\nThe ferry leaves Halm at 22:15. Dogs travel free of charge.\n"
TRAVEL = "# 报销\n\n一线城市每晚不超过 450 元。补贴每天 100 元。\n"


@pytest.fixture
def base() -> str:
    """The name of a base that no other test uses."""
    return f"b-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Two documents, and an empty file that cannot be added."""
    folder = tmp_path / "文档 folder"
    folder.mkdir()
    (folder / "ferry.md").write_text(FERRY, encoding="utf-8")
    (folder / "报销.md").write_text(TRAVEL, encoding="utf-8")
    (folder / "empty.txt").touch()
    return folder


def test_add_search_ask_show_list_and_remove(ragstone: CommandLine, documents: Path, base: str) -> None:
    added = ragstone("add", documents, "--base", base)
    assert added.code == 0
    assert "files 3: ready 2 (chunks 2), unchanged 0, failed 1" in added.out
    assert "  empty.txt  " in added.out
    assert "\x1b" not in added.out + added.err

    again = ragstone("add", documents, "--base", base, "--json")
    assert {event["event"] for event in again.events} == {"found", "file", "summary"}
    summary = again.events[-1]
    assert (summary["unchanged"], summary["failed"], summary["embedded"]) == (2, 1, 0)
    assert summary["failures"][0]["error"]["code"] == "load.empty"

    found = ragstone("search", "ferry", "leaves", "Halm", "--base", base, "--json")
    assert found.code == 0
    hit = found.json["hits"][0]
    assert (found.json["query"], hit["base"], hit["title"], hit["rank"]) == (
        "ferry leaves Halm",
        base,
        "Ferry",
        1,
    )
    parsed = ragstone("parse", documents / "ferry.md", "--json").json
    assert parsed["text"][hit["start"] : hit["end"]] == hit["text"]
    marked = [parsed["text"][found["start"] : found["end"]].lower() for found in hit["highlights"]]
    assert {"ferry", "halm"} <= set(marked) <= {"ferry", "leave", "leaves", "halm"}
    shown = ragstone("search", "ferry leaves Halm", "--base", base)
    assert shown.out.startswith(f"1. Ferry  ({base}, ")
    assert str(documents / "ferry.md") in shown.out
    watched = Watched(ragstone, "search", "ferry leaves Halm", "--base", base)
    assert watched.end() == 0
    assert "\x1b[1mHalm\x1b[0m" in watched.shown

    answer = ragstone("ask", "When does the ferry leave Halm?", "--base", base, "--json").json
    assert answer["answered"] is True
    assert answer["mode"] == "extractive"
    citation = answer["citations"][0]
    assert parsed["text"][citation["start"] : citation["end"]] == citation["quote"]
    told = ragstone("ask", "-", "--base", base, stdin="When does the ferry leave Halm?\n")
    assert "22:15" in told.out
    assert "[1] Ferry\n" in told.out
    assert "RAGSTONE_CHAT_BASE_URL" in told.err

    listed = ragstone("list", "--base", base, "--json").json
    assert [info["title"] for info in listed["documents"]] == ["报销", "Ferry"]
    assert [info["name"] for info in listed["bases"]] == [base]
    shown = ragstone("show", "ferry.md", "--base", base, "--chunks", "--json").json
    assert shown["text"] == parsed["text"]
    assert "".join(chunk["text"] for chunk in shown["chunks"]) == parsed["text"].strip()
    assert "Ferry" in ragstone("show", shown["document_id"][:8], "--text").out

    removed = ragstone("rm", "ferry.md", "--base", base, "--json").json
    assert removed["document_ids"] == [shown["document_id"]]
    assert removed["rows"]["chunks"] == 1
    gone = ragstone("show", "ferry.md", "--base", base, "--json")
    assert gone.code == 3
    assert gone.json["error"]["code"] == "kb.document_not_found"
    assert ragstone("rm", "--base", base, "--all", "--yes").code == 0
    assert ragstone("list", "--base", base).code == 2


def test_nothing_found_is_exit_code_3(ragstone: CommandLine, documents: Path, base: str) -> None:
    (documents / "none").mkdir()
    empty = ragstone("add", documents / "none", "--base", base)
    assert (empty.code, empty.out) == (3, "")
    assert ragstone("add", documents, "--glob", "*.pdf", "--base", base).code == 3
    failed = ragstone("add", documents / "empty.txt", "--base", base)
    assert failed.code == 1
    assert "empty.txt" in failed.out
    assert ragstone("add", documents / "报销.md", "--base", base).code == 0
    none = ragstone("search", "zebra", "--mode", "text", "--base", base)
    assert (none.code, none.out) == (3, "")
    none = ragstone("search", "zebra", "--mode", "text", "--base", base, "--json")
    assert (none.code, none.json["hits"]) == (3, [])


def test_bad_questions_and_bases_are_refused_in_a_sentence(
    ragstone: CommandLine, documents: Path, base: str
) -> None:
    assert ragstone("add", documents, "--base", base).code == 0
    for top_k in ("0", "-1", "1000000"):
        ended = ragstone("search", "ferry", "--top-k", top_k, "--base", base)
        assert (ended.code, ended.out) == (2, "")
        assert f"top-k is {top_k}" in ended.err
    ended = ragstone("ask", "ferry", "--base", "no such base", RAGSTONE_LANG="zh")
    assert ended.code == 2
    assert "没有名为 'no such base' 的知识库" in ended.err
    assert base in ended.err


def test_a_file_of_200_mb_is_a_reason_in_the_summary(
    ragstone: CommandLine, documents: Path, base: str
) -> None:
    with (documents / "huge.txt").open("wb") as file:
        file.truncate(200_000_000)
    ended = ragstone("add", documents, "--base", base)
    assert ended.code == 0
    assert "ready 2" in ended.out
    assert "huge.txt   200,000,000 bytes" in ended.out


def test_a_wrong_database_password_is_told_without_it(ragstone: CommandLine, external_postgres) -> None:  # type: ignore[no-untyped-def]
    url = external_postgres.url_of("postgres", password="wrong-secret")
    ended = ragstone("list", RAGSTONE_DATABASE_URL=url)
    assert ended.code == 2
    assert ended.err.count("\n") == 1
    assert "RAGSTONE_DATABASE_URL" in ended.err
    assert "wrong-secret" not in ended.err
    # The server's own words end without the sentence repeating the password of the settings either.
    assert external_postgres.password not in ended.err


def test_two_adds_of_one_folder_at_once_both_end_well(
    ragstone: CommandLine, tmp_path: Path, base: str
) -> None:
    """C45"""
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\nWord{number} stands here.\n")
    running = [ragstone.start("add", folder, "--base", base, "--json") for _ in range(2)]
    for process in running:
        out, err = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, err
        summary = json.loads(out.splitlines()[-1])
        assert summary["ready"] + summary["unchanged"] == 20
    assert len(ragstone("list", "--base", base, "--json").json["documents"]) == 20


def test_ctrl_c_keeps_what_was_finished_and_the_next_run_goes_on(
    ragstone: CommandLine, tmp_path: Path, base: str
) -> None:
    """C9, C12: what is ready can be seen at once; nothing hangs."""
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(300):
        words = " ".join(f"word{number}x{index}" for index in range(400))
        (folder / f"{number:03}.md").write_text(f"# Note {number}\n\n{words}\n")
    process = ragstone.start("add", folder, "--base", base, "--json")
    assert process.stdout is not None
    ready = 0
    for line in process.stdout:
        ready += json.loads(line).get("status") == "ready"
        if ready == 3:
            break
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130
    assert err.decode().strip() == "Stopped. What was finished is kept; the same command goes on from there."
    ready += sum(json.loads(line).get("status") == "ready" for line in rest.splitlines())
    assert b"summary" not in rest

    listed = ragstone("list", "--base", base, "--json").json["documents"]
    assert ready <= len(listed) < 300
    assert all(info["chunks"] > 0 for info in listed)
    summary = ragstone("add", folder, "--base", base, "--json").events[-1]
    assert (summary["unchanged"], summary["ready"]) == (len(listed), 300 - len(listed))


def test_a_reader_that_leaves_is_no_error(ragstone: CommandLine, documents: Path) -> None:
    process = ragstone.start("parse", documents / "ferry.md")
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, err) == (141, b"")


def test_on_a_terminal_progress_is_drawn_and_answers_carry_links(
    ragstone: CommandLine, documents: Path, base: str
) -> None:
    adding = Watched(ragstone, "add", documents, "--base", base)
    assert adding.end() == 0
    assert "3/3 files" in adding.shown
    asking = Watched(ragstone, "ask", "When does the ferry leave Halm?", "--base", base)
    assert asking.end() == 0
    assert "22:15" in asking.shown
    assert "\x1b]8;id=" in asking.shown
    assert (documents / "ferry.md").as_uri() in asking.shown


def test_removing_a_base_asks_first(ragstone: CommandLine, documents: Path, base: str) -> None:
    assert ragstone("add", documents, "--base", base).code == 0
    for reply, code in (("n\n", 1), ("y\n", 0)):
        removing = Watched(ragstone, "rm", "--base", base, "--all")
        removing.wait_for("[y/N]")
        removing.type(reply)
        assert removing.end() == code
    assert "Documents removed: 2" in removing.shown


def test_a_piped_conversation_answers_line_by_line(ragstone: CommandLine, documents: Path, base: str) -> None:
    assert ragstone("add", documents, "--base", base).code == 0
    lines = "/sources\n\nWhen does the ferry leave Halm?\n/sources\n/nonsense\n/clear\n/exit\nnever read\n"
    ended = ragstone("chat", "--base", base, stdin=lines)
    assert ended.code == 0
    assert ended.out.count("22:15") >= 3
    assert ended.out.count("[1] Ferry") == 2
    assert "no sources yet" in ended.err
    assert "/nonsense" in ended.err
    assert ended.err.count("RAGSTONE_CHAT_BASE_URL") == 1
    ended = ragstone(
        "chat", "--base", base, "--json", stdin="ferry Halm\n" + "x" * 9_000 + "\nDogs travel free\n"
    )
    assert [set(value) >= {"answer"} for value in ended.events] == [True, False, True]
    assert ended.events[1]["error"]["code"] == "core.query_long"
    assert ended.code == 1


def test_in_a_conversation_the_second_ctrl_c_leaves(ragstone: CommandLine) -> None:
    talking = Watched(ragstone, "chat")
    talking.wait_for("> ")
    talking.interrupt("Ctrl-C again leaves")
    talking.wait_for(lambda shown: shown.count("> ") == 2)
    talking.interrupt("Goodbye")
    assert talking.end() == 0
    assert "Traceback" not in talking.shown


def test_without_its_embedding_server_search_and_answers_go_on_by_words(
    ragstone: CommandLine, documents: Path, base: str
) -> None:
    assert ragstone("add", documents, "--base", base).code == 0
    down = {
        "RAGSTONE_TEST_EMBEDDER": "",
        "RAGSTONE_EMBED_BASE_URL": "http://127.0.0.1:9/v1",
        "RAGSTONE_EMBED_MODEL": "m",
    }
    found = ragstone("search", "ferry Halm", "--base", base, "--json", **down)
    assert (found.code, found.json["degraded"]) == (0, ["embedder_failed"])
    assert "22:15" in found.json["hits"][0]["text"]
    answer = ragstone("ask", "When does the ferry leave Halm?", "--base", base, **down)
    assert "22:15" in answer.out
    assert "only words were searched" in answer.err
    refused = ragstone("search", "ferry", "--base", base, "--mode", "vector", **down)
    assert refused.code == 1
    assert "127.0.0.1:9" in refused.err


def test_a_path_names_its_own_file_though_others_end_alike(
    ragstone: CommandLine, tmp_path: Path, base: str
) -> None:
    inner = tmp_path / "copies" / str(tmp_path).lstrip("/")
    for folder in (tmp_path, inner):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ferry.md").write_text(FERRY)
    assert ragstone("add", tmp_path, "--base", base).code == 0
    for reference in (tmp_path / "ferry.md", "ferry.md"):  # the command runs in tmp_path
        shown = ragstone("show", reference, "--base", base, "--json")
        assert shown.json["uri"] == (tmp_path / "ferry.md").as_uri()
    assert ragstone("rm", inner.name + "/ferry.md", "--base", base).code == 2


def test_a_document_is_found_by_a_file_name_that_is_no_utf_8(
    ragstone: CommandLine, tmp_path: Path, base: str
) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    (tmp_path / name).write_text("The mill opens at nine.")
    assert ragstone("add", tmp_path, "--base", base).code == 0
    shown = ragstone("show", name, "--base", base, "--text")
    assert (shown.code, "nine" in shown.out) == (0, True)
    assert ragstone("show", os.fsdecode(b"\xff\xfe"), "--base", base).code == 3
