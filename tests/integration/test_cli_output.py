"""What the command line writes: JSON for machines, text for people."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from ragstone.cli.add import checked_sources, exit_code, show_summary
from ragstone.cli.answers import local_path, opening, show_remarks, show_sources, show_text
from ragstone.cli.progress import AddProgress, Notices, clock
from ragstone.cli.shapes import answer_json, event_json, search_json, summary_json
from ragstone.cli.terminal import Terminal, as_json, shortened, visible
from ragstone.cli.words import language
from ragstone.errors import CorruptContent, InputError, NoText
from ragstone.ingest import ChunksEmbedded, FileResult, IngestResult
from ragstone.kb.bootstrap import Notice
from ragstone.kb.facade import Found
from ragstone.types import Answer, Chunk, Citation, Hit, Remark, Score, SearchResult, Step


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGSTONE_LANG", "en")
    language.cache_clear()


def hit() -> Hit:
    chunk = Chunk(
        text="芦苇带宽三米。",
        document_id="d1",
        index=0,
        start=10,
        end=17,
        page=2,
        metadata={"author": "张三", "read": datetime(2026, 1, 2, tzinfo=UTC)},
    )
    scores = (
        Score(stage="retrieve", scale="cosine", value=0.87, rank=1),
        Score(stage="retrieve", scale="hybrid", value=float("nan"), rank=1),
    )
    return Hit(chunk=chunk, uri="file:///t/lake.pdf", title="Lake", base_id="b1", scores=scores)


def citation(n: int = 1, quote: str = "芦苇带宽三米。") -> Citation:
    return Citation(
        n=n,
        chunk_id="c1",
        document_id="d1",
        uri="file:///t/my%20lake.pdf",
        title="Lake",
        page=2,
        start=10,
        end=17,
        quote=quote,
    )


def test_json_has_no_nan_keeps_letters_and_writes_times_in_iso_8601() -> None:
    text = as_json(
        {"x": [float("nan"), float("inf"), np.float32(0.5)], "t": datetime(2026, 1, 2, tzinfo=UTC)}
    )
    assert json.loads(text) == {"x": [None, None, 0.5], "t": "2026-01-02T00:00:00+00:00"}
    assert as_json({"名": "值"}) == '{"名": "值"}'
    assert "\n" not in as_json({"a": "b\nc"})


def test_search_json_has_the_shape_of_the_contract() -> None:
    trace = (
        Step(stage="retrieve", seconds=0.25),
        Step(stage="select", seconds=0.5),
        Step(stage="select", seconds=0.25),
    )
    value = json.loads(as_json(search_json("q", SearchResult(hits=(hit(),), trace=trace), {"b1": "湖"}, {})))
    (found,) = value["hits"]
    assert list(value) == ["query", "hits", "timings_ms", "degraded"]
    assert list(found) == [
        "rank",
        "chunk_id",
        "document_id",
        "base",
        "title",
        "name",
        "uri",
        "page",
        "page_end",
        "place",
        "start",
        "end",
        "text",
        "metadata",
        "scores",
        "highlights",
    ]
    assert (found["rank"], found["base"], found["page"], found["start"], found["end"]) == (1, "湖", 2, 10, 17)
    assert found["scores"] == {"cosine": 0.87, "hybrid": None}
    assert found["metadata"] == {"author": "张三", "read": "2026-01-02T00:00:00+00:00"}
    assert value["timings_ms"] == {"retrieve": 250.0, "select": 750.0}


def test_answer_json_adds_answer_and_citations() -> None:
    answer = Answer(
        text="三米 [1]。", mode="extractive", answered=True, citations=(citation(),), hits=(hit(),)
    )
    value = json.loads(as_json(answer_json("q", answer, {}, {"d1": "my lake.pdf"})))
    assert {
        "query",
        "hits",
        "answer",
        "citations",
        "answered",
        "mode",
        "audit",
        "partial",
        "needs_review",
        "timings_ms",
        "degraded",
    } == set(value)
    assert value["citations"] == [
        {
            "n": 1,
            "chunk_id": "c1",
            "document_id": "d1",
            "uri": "file:///t/my%20lake.pdf",
            "title": "Lake",
            "name": "my lake.pdf",
            "page": 2,
            "page_end": 2,
            "place": {
                "page": 2,
                "page_end": 2,
                "slide": None,
                "sheet": None,
                "row": None,
                "row_end": None,
                "section": [],
            },
            "start": 10,
            "end": 17,
            "quote": "芦苇带宽三米。",
        }
    ]


def test_events_of_add_are_told_apart_by_their_event() -> None:
    failed = FileResult(
        uri="file:///x", name="x", status="failed", error=CorruptContent("ingest.no_text", name="x")
    )
    values = [
        event_json(event) for event in (Found(files=2, bytes=9), ChunksEmbedded(chunks=3, reused=1), failed)
    ]
    assert [value["event"] for value in values] == ["found", "chunks", "file"]
    assert values[2]["error"] == {"code": "ingest.no_text", "message": str(failed.error)}
    summary = summary_json("default", IngestResult(files=(failed,), seconds={"parse": 1.0}), 2.0)
    assert (summary["event"], summary["files"], summary["failed"]) == ("summary", 1, 1)
    json.loads(as_json(summary))


def test_text_of_documents_cannot_control_the_terminal() -> None:
    assert visible("a\x1b]0;title\x07b\x9b2Jc\td\r\ne\u202e") == "a�]0;title�b�2Jc\td\ne�"
    assert visible("中文 and English 🙂") == "中文 and English 🙂"
    assert shortened("one\n two  three", 9) == "one two…"


def test_sources_are_numbered_quoted_and_open(capsys: pytest.CaptureFixture[str]) -> None:
    show_sources(Terminal(), [citation(2, "x" * 500), citation(1), citation(1)], {})
    out = capsys.readouterr().out
    assert out.startswith(f"[1] Lake, page 2\n    “芦苇带宽三米。”\n    {Path('/t/my lake.pdf')}\n[2]")
    assert "x" * 120 in out
    assert "x" * 200 not in out
    assert opening("file:///t/a.pdf", 3) == "file:///t/a.pdf#page=3"
    assert opening("file:///t/a.html", 3) == "file:///t/a.html"
    assert local_path("https://a.b/c%20d") == "https://a.b/c%20d"


def test_a_repaired_answer_is_shown_after_what_was_streamed(capsys: pytest.CaptureFixture[str]) -> None:
    answer = Answer(text="Three metres [1].", mode="model", answered=True)
    show_text(Terminal(), answer, "Three metres [1].")
    assert capsys.readouterr().out == "\n"
    show_text(Terminal(), answer, "Three metres [9].")
    captured = capsys.readouterr()
    assert captured.out.endswith("Three metres [1].\n")
    assert "corrected" in captured.err


def test_an_answer_without_model_says_so_and_a_degraded_one_says_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_remarks(Terminal(), Answer(text="x", mode="extractive", answered=True))
    assert "RAGSTONE_CHAT_BASE_URL" in capsys.readouterr().err
    show_remarks(
        Terminal(), Answer(text="x", mode="extractive", answered=True, degraded=("chat_failed", "other"))
    )
    err = capsys.readouterr().err
    assert "did not answer" in err
    assert "other" in err
    assert "RAGSTONE_CHAT_BASE_URL" not in err
    show_remarks(Terminal(), Answer(text="x", mode="model", answered=True))
    assert capsys.readouterr().err == ""


def test_the_summary_names_every_failure_and_writes_a_common_reason_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def failed(name: str, key: str) -> FileResult:
        return FileResult(uri=f"file:///{name}", name=name, status="failed", error=NoText(key, name=name))

    empty = [failed(f"empty{number}.txt", "load.empty") for number in range(5)]
    files = (
        FileResult(
            uri="file:///ok",
            name="ok",
            status="ready",
            chunks=1200,
            warnings=(Remark(key="parse.pages_damaged", values={"name": "ok", "pages": "2"}),),
        ),
        *empty,
        failed("一.pdf", "ingest.no_text"),
    )
    show_summary(Terminal(), "papers", IngestResult(files=files), 1.26)
    out = capsys.readouterr().out
    assert "Base papers, files 7: ready 1 (chunks 1,200), unchanged 0, failed 6; 1.3 s" in out
    assert "Files with warnings: 1" in out
    assert out.count("0 bytes") == 1
    assert all(f"    empty{number}.txt\n" in out for number in range(5))
    assert "  一.pdf  nothing to index" in out


@pytest.mark.parametrize(
    ("states", "code"),
    [([], 3), (["failed"], 1), (["failed", "ready"], 0), (["failed", "unchanged"], 0), (["ready"], 0)],
)
def test_the_exit_code_of_add_follows_its_files(states: list[str], code: int) -> None:
    files = tuple(FileResult(uri=str(i), name=str(i), status=state) for i, state in enumerate(states))  # type: ignore[arg-type]
    assert exit_code(IngestResult(files=files)) == code


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "a[1].md").write_text("x")
    checked_sources([str(tmp_path / "a[1].md")])
    with pytest.raises(InputError, match=r"--glob 'b\[1\]\.md'"):
        checked_sources([str(tmp_path / "b[1].md")])


def test_without_a_terminal_a_notice_is_one_line_and_progress_is_silent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    notices = Notices(Terminal())
    progress = AddProgress(notices)
    for part in (0.0, 0.5, 1.0):
        notices(Notice(key="embed.converting", fraction=part))
    progress(Found(files=2, bytes=10))
    progress(ChunksEmbedded(chunks=8, reused=0))
    notices.close()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_times_are_written_as_a_clock() -> None:
    assert (clock(42), clock(62.4), clock(3600)) == ("0:42", "1:02", "1:00:00")
