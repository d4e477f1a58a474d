"""Ask and search over HTTP: whole and as server-sent events."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from provider import Fault
from talking import FERRY, Talk, events, joined, named
from working import until

pytestmark = pytest.mark.anyio

AWKWARD = 'a\nb\\n c\r\n"d" 👨‍👩‍👧 \u2028\x85 data: x\n\n深 [1]'


def asked(talk: Talk) -> list[tuple[Any, ...]]:
    return talk.sql(
        "SELECT q.status, q.answered, q.mode, q.first_ms IS NOT NULL, array_agg(b.name ORDER BY b.name)"
        " FROM questions q LEFT JOIN question_bases USING (question_id) LEFT JOIN bases b USING (base_id)"
        " GROUP BY q.question_id ORDER BY q.question_id"
    )


async def test_a90_a81_an_answer_with_its_sources_and_citations(talk: Talk) -> None:
    response = await talk.client.post(
        "/api/ask", json={"question": "When does the ferry leave?", "bases": [talk.bases["ferry"]]}
    )
    assert response.status_code == 200
    body = response.json()
    assert (body["answer"], body["status"], body["mode"]) == ("It leaves at 22:15 [1].", "complete", "model")
    (citation,) = body["citations"]
    source = body["sources"][citation["n"] - 1]
    assert citation["quote"] == FERRY[citation["start"] : citation["end"]]
    assert source["text"] == FERRY[source["start"] : source["end"]]
    assert (source["base"], citation["base_id"]) == ("ferry", talk.bases["ferry"])
    assert body["usage"]["input_tokens"] > 0
    assert set(body["timings_ms"]) >= {"retrieve", "generate"}


async def test_a91_w16_w23_c41_the_stream_says_stage_sources_deltas_done_with_ids_and_headers(
    talk: Talk,
) -> None:
    talk.provider.fail(Fault(hold=True))
    body = {"question": "When does the ferry leave?"}
    async with talk.client.stream("POST", "/api/ask/stream", json=body) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-cache"
        assert response.headers["x-accel-buffering"] == "no"
        stream = events(response)
        # While the model is silent the stages and the sources are there already.
        found = [await anext(stream)]
        assert (found[0].name, found[0].data["stage"]) == ("stage", "begin")
        while found[-1].name != "sources":
            found.append(await anext(stream))
        await talk.provider.until(lambda provider: bool(provider.requests))
        talk.provider.release()
        found += [event async for event in stream]
    assert list(dict.fromkeys(event.name for event in found)) == ["stage", "sources", "delta", "done"]
    assert found[-1].name == "done"
    assert [event.event_id for event in found] == [str(n) for n in range(1, len(found) + 1)]
    assert joined(found) == found[-1].data["answer"] == "It leaves at 22:15 [1]."
    (sources,) = named(found, "sources")
    assert {source["base"] for source in sources["sources"]} == {"ferry", "lake"}


async def test_w16_newlines_backslashes_and_emoji_arrive_exactly(talk: Talk) -> None:
    talk.provider.chat = lambda body: list(AWKWARD)
    found = await talk.streamed("/api/ask/stream", question="When does the ferry leave?")
    assert joined(found) == found[-1].data["answer"] == AWKWARD
    whole = await talk.client.post("/api/ask", json={"question": "When does the ferry leave?"})
    assert whole.json()["answer"] == AWKWARD


async def test_w16_characters_that_nothing_can_hold_are_replaced(talk: Talk) -> None:
    talk.provider.chat = lambda body: ["a\0b ", " [1]"]
    found = await talk.streamed("/api/ask/stream", question="When does the ferry leave?")
    assert joined(found) == found[-1].data["answer"] == "a\ufffdb  [1]"


async def test_w15_a_refusal_is_the_same_whole_and_streamed_and_a_phrase_in_an_answer_is_none(
    talk: Talk,
) -> None:
    body = {"question": "When does the ferry leave?"}
    talk.provider.chat = lambda _: ["<no-", "answer/>"]
    found = await talk.streamed("/api/ask/stream", **body)
    whole = (await talk.client.post("/api/ask", json=body)).json()
    assert found[-1].data["answered"] is False is whole["answered"]
    assert joined(found) == found[-1].data["answer"] == whole["answer"] != ""
    talk.provider.chat = lambda _: "On Mondays 信息不足 is written at the pier; it leaves at 22:15 [1]."
    found = await talk.streamed("/api/ask/stream", **body)
    assert found[-1].data["answered"] is True
    assert "信息不足" in found[-1].data["answer"]


async def test_a89_a_question_counts_once_for_each_of_its_bases(talk: Talk) -> None:
    before = len(asked(talk))
    ferry, lake = talk.bases["ferry"], talk.bases["lake"]
    for bases in ([ferry], [lake, ferry, lake], None):
        await talk.client.post("/api/ask", json={"question": "When does it leave?", "bases": bases})
    await talk.client.post("/api/ask", json={"question": "When?", "bases": ["nothing"]})
    assert asked(talk)[before:] == [
        ("complete", True, "model", True, ["ferry"]),
        ("complete", True, "model", True, ["ferry", "lake"]),
        ("complete", True, "model", True, ["ferry", "lake"]),
    ]


@pytest.mark.parametrize("path", ["/api/ask", "/api/ask/stream", "/api/search"])
@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"text": "  "}, 422, "core.query_blank"),
        ({"text": "x" * 8_001}, 422, "core.query_long"),
        ({"bases": []}, 422, "session.no_bases"),
        ({"bases": ["nothing"]}, 404, "access.base"),
        ({"bases": ["a\0b"]}, 422, "access.body_text"),
        ({"top_k": 0}, 422, "core.top_k"),
        ({"top_k": True}, 422, "access.invalid"),
        ({"top_k": "5"}, 422, "access.invalid"),
        ({"filter": "year >"}, 422, None),
        ({"bases": "ferry"}, 422, None),
        ({"surprise": 1}, 422, None),
    ],
)
async def test_a90_what_cannot_be_asked_is_a_problem_before_any_event(
    talk: Talk, path: str, change: dict[str, Any], status: int, code: str | None
) -> None:
    word = "query" if path.endswith("search") else "question"
    body = {word: change.get("text", "When?"), **{name: change[name] for name in change if name != "text"}}
    response = await talk.client.post(path, json=body, headers={"Accept-Language": "zh-CN"})
    assert response.status_code == status, response.text
    if code is not None:
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["code"] == code
    assert talk.provider.requests == []


async def test_search_finds_passages_with_scores_and_places(talk: Talk) -> None:
    response = await talk.client.post(
        "/api/search", json={"query": "deep lake", "bases": None, "top_k": 1, "highlight": True}
    )
    (hit,) = response.json()["hits"]
    assert (hit["base"], hit["rank"], hit["page"]) == ("lake", 1, None)
    assert hit["scores"]["hybrid"] > 0
    text = hit["text"]
    assert {text[start - hit["start"] : end - hit["start"]] for start, end in hit["highlights"]} >= {"deep"}
    only = await talk.client.post("/api/search", json={"query": "deep lake", "bases": [talk.bases["ferry"]]})
    assert {hit["base"] for hit in only.json()["hits"]} == {"ferry"}
    none = await talk.client.post("/api/search", json={"query": "lake", "rerank": True})
    assert none.json()["code"] == "kb.no_reranker"


async def test_a_provider_that_is_down_is_a_step_down_that_the_answer_names(talk: Talk) -> None:
    talk.provider.fail(Fault(status=401), times=1)
    found = await talk.streamed("/api/ask/stream", question="When does the ferry leave?")
    done = found[-1].data
    assert (found[-1].name, done["mode"], done["degraded"]) == ("done", "extractive", ["chat_failed"])
    assert "22:15" in done["answer"]


async def test_w16_w17_an_error_after_the_first_word_is_an_error_event_with_a_code(talk: Talk) -> None:
    before = len(asked(talk))
    talk.provider.chat = lambda body: ["The ferry is white [1]. It leaves ", "at ", "22:15."]
    talk.provider.fail(Fault(error_after=2, message="SECRET trace"))
    found = await talk.streamed("/api/ask/stream", question="When does the ferry leave?")
    error = found[-1].data
    assert found[-1].name == "error"
    assert error["code"].startswith("chat.")
    assert error["status"] in (502, 503)
    assert error["text"] == joined(found) == "The ferry is white [1]. It leaves at"
    talk.provider.fail(Fault(error_after=2))
    whole = await talk.client.post("/api/ask", json={"question": "When does the ferry leave?"})
    assert whole.status_code == error["status"]
    assert whole.json()["code"] == error["code"]
    assert [row[0] for row in asked(talk)[before:]] == ["partial", "partial"]


@pytest.mark.parametrize("path", ["/api/ask", "/api/ask/stream"])
async def test_w17_c40_a_client_that_goes_away_closes_the_providers_connection(talk: Talk, path: str) -> None:
    before = len(asked(talk))
    talk.provider.chat = lambda body: ["It leaves ", "at ", "22:15 [1]."]
    talk.provider.fail(Fault(stall_after=2))

    async def ask() -> None:
        async with talk.client.stream("POST", path, json={"question": "When?"}) as response:
            async for _ in response.aiter_bytes():
                pass

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await talk.provider.until(lambda provider: provider.active == 1)
        tasks.cancel_scope.cancel()
    await talk.provider.until(lambda provider: provider.left_early == 1 and not provider.active)

    async def counted() -> bool:
        return len(asked(talk)) > before

    await until(counted)
    assert asked(talk)[before][0] == "partial"


async def test_32_streams_at_once_are_whole_and_their_own(talk: Talk) -> None:
    def say(body: dict[str, Any]) -> list[str]:
        number = body["messages"][-1]["content"].rpartition("ferry ")[2].split("?")[0]
        return [f"{number} ", *(f"{number}-{n} " for n in range(20)), "end [1]"]

    talk.provider.chat = say
    results: dict[int, str] = {}

    async def one(number: int) -> None:
        found = await talk.streamed("/api/ask/stream", question=f"When leaves ferry {number}?")
        assert found[-1].name == "done"
        results[number] = joined(found)

    async with anyio.create_task_group() as tasks:
        for number in range(32):
            tasks.start_soon(one, number)
    assert results == {
        number: "".join([f"{number} ", *(f"{number}-{n} " for n in range(20)), "end [1]"])
        for number in range(32)
    }


async def test_a_body_that_is_cut_off_is_no_question(talk: Talk) -> None:
    for content in (b'{"question": "Wh', b"", b"[]", b"\xff\xfe"):
        response = await talk.client.post(
            "/api/ask/stream", content=content, headers={"Content-Type": "application/json"}
        )
        assert response.status_code in (400, 422)
    answer = json.loads((await talk.client.post("/api/ask", json={"question": "When?"})).text)
    assert answer["status"] == "complete"


async def test_a_fault_of_the_server_is_an_error_event_without_its_text(talk: Talk) -> None:
    talk.sql("ALTER TABLE chunks RENAME TO chunks_away")
    try:
        found = await talk.streamed("/api/ask/stream", question="When does the ferry leave?")
    finally:
        talk.sql("ALTER TABLE chunks_away RENAME TO chunks")
    assert (found[-1].name, found[-1].data["code"]) == ("error", "session.internal")
    assert "chunks" not in json.dumps(found[-1].data)
