"""Conversations over HTTP: made, asked in, stopped, left, answered anew, kept, redacted."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from provider import Fault
from talking import FERRY, Talk, filled, joined, named
from working import until

pytestmark = pytest.mark.anyio

LONG = ["The ferry is white [1]. ", "It is old [1]. ", "It leaves at 22:15 [1]. ", "And so on [1]."]
WHEN = "When does the ferry leave?"


# --- sessions ------------------------------------------------------------------------


async def test_a92_w19_a_session_has_bases_that_exist_each_once_and_a_title(talk: Talk) -> None:
    ferry, lake = talk.bases["ferry"], talk.bases["lake"]
    made = [
        (await talk.client.post("/api/sessions", json=body, headers={"Accept-Language": language})).json()
        for body, language in (
            ({"bases": [ferry, ferry]}, "en"),
            ({"bases": [lake, ferry, lake]}, "zh-CN"),
            ({"bases": None}, "en"),
            ({"bases": [lake], "title": "  深水 🌊 "}, "en"),
        )
    ]
    assert [session["title"] for session in made] == ["ferry", "2 个知识库对话", "All bases", "深水 🌊"]
    assert [session["bases"] for session in made] == [[ferry], [lake, ferry], None, [lake]]
    for body, status in (
        ({"bases": [ferry, "nothing"]}, 404),
        ({"bases": []}, 422),
        ({"bases": [ferry], "title": " "}, 422),
        ({"bases": [ferry], "title": "x" * 201}, 422),
        ({"bases": [ferry], "title": "a\nb"}, 422),
    ):
        assert (await talk.client.post("/api/sessions", json=body)).status_code == status


async def test_a93_w19_list_rename_pin_change_bases_delete(talk: Talk) -> None:
    ferry, lake = talk.bases["ferry"], talk.bases["lake"]
    first = await talk.session(bases=[ferry], title="Zebra one")
    second = await talk.session(bases=[lake], title="Zebra two")

    async def listed(**params: Any) -> list[str]:
        body = (await talk.client.get("/api/sessions", params={"search": "zebra", **params})).json()
        assert body["total"] == 2
        return [item["session_id"] for item in body["items"]]

    assert await listed() == [second, first]
    changed = await talk.client.patch(f"/api/sessions/{first}", json={"pinned": True, "title": "Zebra 1"})
    assert (changed.json()["title"], changed.json()["pinned"]) == ("Zebra 1", True)
    assert await listed() == [first, second]
    assert await listed(limit=1, offset=1) == [second]
    for bases, status in (([lake, lake], 200), (["nothing"], 404), ([], 422), (None, 200)):
        response = await talk.client.patch(f"/api/sessions/{first}", json={"bases": bases})
        assert response.status_code == status
    assert response.json()["bases"] is None
    assert (await talk.client.patch(f"/api/sessions/{first}", json={})).json()["bases"] is None
    await talk.say(first, WHEN)
    assert (await talk.client.delete(f"/api/sessions/{first}")).status_code == 204
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/export"), ("POST", "/messages")):
        response = await talk.client.request(
            method, f"/api/sessions/{first}{path}", json={"question": "x"} if method == "POST" else None
        )
        assert (response.status_code, response.json()["code"]) == (404, "session.not_found")
    assert talk.sql("SELECT 1 FROM messages WHERE session_id = %(id)s", id=first) == []
    assert talk.sql("SELECT action FROM audit WHERE subject = %(id)s", id=first) == [("session.delete",)]


@pytest.mark.parametrize("session_id", ["nothing", "a%00b", "%2e%2e", "x" * 500, "'; DROP TABLE sessions"])
async def test_ids_of_nobody_are_not_found(talk: Talk, session_id: str) -> None:
    for method, path in (
        ("GET", ""),
        ("GET", "/messages/x"),
        ("GET", "/messages/a%00b"),
        ("POST", "/messages/x/stop"),
        ("POST", "/messages/stream"),
    ):
        body = {"question": "x"} if path.endswith("stream") else None
        response = await talk.client.request(method, f"/api/sessions/{session_id}{path}", json=body)
        assert response.status_code == 404, (method, path, response.text)


# --- questions and answers -----------------------------------------------------------


async def test_a94_a95_a96_a81_question_and_answer_are_stored_with_citations_trace_and_status(
    talk: Talk,
) -> None:
    session = await talk.session(bases=[talk.bases["ferry"]])
    found = await talk.streamed(f"/api/sessions/{session}/messages/stream", question=WHEN)
    begin, done = found[0].data, found[-1].data
    assert (begin["stage"], begin["message_id"]) == ("begin", done["message_id"])
    question, answer = await talk.messages(session)
    assert [(m["role"], m["seq"], m["status"]) for m in (question, answer)] == [
        ("user", 1, "complete"),
        ("assistant", 2, "complete"),
    ]
    assert (question["content"], answer["content"]) == (WHEN, "It leaves at 22:15 [1].")
    assert answer["reply_to"] == question["message_id"] == done["question_id"]
    (citation,) = answer["citations"]
    assert citation["quote"] == FERRY[citation["start"] : citation["end"]]
    assert answer["citations"] == done["citations"]
    assert {"retrieve", "generate", "cite"} <= {step["stage"] for step in answer["trace"]}
    assert answer["sources"][0]["text"] is None
    shown = await talk.message(session, answer["message_id"])
    assert shown["sources"][0]["text"] == FERRY
    replied = await talk.say(session, "And the dogs?")
    assert (replied["seq"], replied["answer"]) == (4, "It leaves at 22:15 [1].")


async def test_a94_the_question_is_stored_before_the_model_says_anything(talk: Talk) -> None:
    session = await talk.session(bases=[talk.bases["ferry"]])
    talk.provider.fail(Fault(hold=True))
    async with talk.stream(f"/api/sessions/{session}/messages/stream", question=WHEN) as stream:
        assert (await anext(stream)).data["seq"] == 2
        assert [(m["content"], m["status"]) for m in await talk.messages(session)] == [
            (WHEN, "complete"),
            ("", "streaming"),
        ]
        await talk.provider.until(lambda provider: provider.active == 1)
        talk.provider.release()
        async for event in stream:
            last = event
    assert last.name == "done"


async def test_c34_a_follow_up_is_compressed_with_the_history_of_its_session_only(talk: Talk) -> None:
    def say(body: dict[str, Any]) -> str:
        compressing = "Conversation:" in body["messages"][-1]["content"]
        return "Do dogs travel free on the ferry from Halm?" if compressing else "Free of charge [1]."

    talk.provider.chat = say
    session, other = await talk.session(bases=None), await talk.session(bases=None)
    await talk.say(other, "How deep is the lake?")
    await talk.say(session, WHEN)
    talk.provider.requests.clear()
    await talk.say(session, "And the dogs?")
    compress, answer = talk.provider.bodies("/chat/completions")
    assert WHEN in compress["messages"][-1]["content"]
    said = [message["content"] for message in answer["messages"]]
    assert said[1:3] == [WHEN, "Free of charge [1]."]
    assert "How deep" not in str(talk.provider.bodies())
    (message,) = [m for m in await talk.messages(session) if m["content"] == "And the dogs?"]
    reply = next(m for m in await talk.messages(session) if m["reply_to"] == message["message_id"])
    queries = [step["detail"].get("query") for step in reply["trace"]]
    assert "Do dogs travel free on the ferry from Halm?" in queries


async def test_c43_a_question_asked_again_after_a_change_is_answered_from_what_is_there(talk: Talk) -> None:
    """C43: no answer is taken from a cache; each is made from the documents of its moment."""
    talk.bases |= await filled(talk.home, talk.database, tide="High tide is at 06:40.")
    session = await talk.session(bases=[talk.bases["tide"]])
    first = await talk.say(session, "When is high tide?")
    await filled(talk.home, talk.database, tide="High tide is at 19:05.")
    second = await talk.say(session, "When is high tide?")
    assert [one["sources"][0]["text"] for one in (first, second)] == [
        "High tide is at 06:40.",
        "High tide is at 19:05.",
    ]


async def test_w18_two_tabs_at_once_never_collide(talk: Talk) -> None:
    session = await talk.session(bases=[talk.bases["ferry"]])
    talk.provider.chat = lambda body: list(LONG)

    async def tab(name: str) -> None:
        for n in range(4):
            found = await talk.streamed(f"/api/sessions/{session}/messages/stream", question=f"{name} {n}?")
            assert found[-1].name == "done"

    async with anyio.create_task_group() as tasks:
        for name in ("one", "two", "three"):
            tasks.start_soon(tab, name)
    messages = await talk.messages(session)
    assert [message["seq"] for message in messages] == list(range(1, 25))
    for question, answer in zip(messages[::2], messages[1::2], strict=True):
        assert answer["reply_to"] == question["message_id"]
        assert answer["content"] == "".join(LONG).strip()


# --- stopped, left, failed -------------------------------------------------------------


async def test_c40_stop_from_another_connection_keeps_what_was_said(talk: Talk) -> None:
    session = await talk.session(bases=[talk.bases["ferry"]])
    talk.provider.chat = lambda body: list(LONG)
    talk.provider.fail(Fault(stall_after=3))
    async with talk.stream(f"/api/sessions/{session}/messages/stream", question=WHEN) as stream:
        found = []
        async for event in stream:
            found.append(event)
            if len(named(found, "delta")) == 1 and event.name == "delta":
                message_id = found[0].data["message_id"]
                stopped = await talk.client.post(f"/api/sessions/{session}/messages/{message_id}/stop")
                assert stopped.status_code == 202
    await talk.provider.until(lambda provider: provider.left_early == 1)
    done = found[-1].data
    assert (found[-1].name, done["status"], done["answered"]) == ("done", "partial", None)
    message = await talk.message(session, message_id)
    assert (message["status"], message["error_code"]) == ("partial", None)
    assert message["content"] == joined(found) != ""
    assert {citation["n"] for citation in message["citations"]} == {1}
    again = await talk.client.post(f"/api/sessions/{session}/messages/{message_id}/stop")
    assert (again.status_code, again.json()["status"]) == (202, "partial")
    # The next question knows that this answer was not whole.
    talk.provider.requests.clear()
    await talk.say(session, "And then?")
    assert "[…]" in talk.provider.bodies("/chat/completions")[-1]["messages"][2]["content"]


@pytest.mark.parametrize("path", ["messages", "messages/stream"])
async def test_w17_c40_a_client_that_goes_away_leaves_a_partial_answer(talk: Talk, path: str) -> None:
    session = await talk.session(bases=[talk.bases["ferry"]])
    talk.provider.chat = lambda body: list(LONG)
    talk.provider.fail(Fault(stall_after=3))

    async def ask() -> None:
        async with talk.client.stream(
            "POST", f"/api/sessions/{session}/{path}", json={"question": WHEN}
        ) as response:
            async for _ in response.aiter_bytes():
                pass

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await talk.provider.until(lambda provider: provider.active == 1)

        async def saved() -> bool:
            return any(message["content"].startswith("The") for message in await talk.messages(session))

        await until(saved)
        tasks.cancel_scope.cancel()
    await talk.provider.until(lambda provider: provider.left_early == 1 and not provider.active)
    _, answer = await talk.messages(session)
    message = await talk.until(session, answer["message_id"], "partial")
    assert message["content"].startswith("The ferry is white [1].")
    assert message["finished_at"] is not None


async def test_a96_w17_an_error_keeps_what_was_said_and_its_code(talk: Talk) -> None:
    session = await talk.session(bases=[talk.bases["ferry"]])
    talk.provider.chat = lambda body: list(LONG)
    talk.provider.fail(Fault(error_after=2))
    found = await talk.streamed(f"/api/sessions/{session}/messages/stream", question=WHEN)
    error = found[-1].data
    message = await talk.message(session, error["message_id"])
    assert (found[-1].name, message["status"]) == ("error", "partial")
    assert message["error_code"] == error["code"]
    assert message["content"] == joined(found) == error["text"] != ""


async def test_a96_w17_an_answer_without_a_word_is_failed_and_no_history(talk: Talk) -> None:
    session = await talk.session(bases=[talk.bases["ferry"]])
    talk.sql("ALTER TABLE chunks RENAME TO chunks_away")
    try:
        found = await talk.streamed(f"/api/sessions/{session}/messages/stream", question=WHEN)
    finally:
        talk.sql("ALTER TABLE chunks_away RENAME TO chunks")
    message = await talk.message(session, found[-1].data["message_id"])
    assert (message["status"], message["content"]) == ("failed", "")
    assert message["error_code"] == "session.internal"
    talk.provider.requests.clear()
    await talk.say(session, WHEN)
    (body,) = talk.provider.bodies("/chat/completions")
    assert len(body["messages"]) == 2


async def test_a_session_that_is_deleted_stops_its_answer(talk: Talk) -> None:
    session = await talk.session(bases=[talk.bases["ferry"]])
    talk.provider.chat = lambda body: list(LONG)
    talk.provider.fail(Fault(stall_after=2))
    async with talk.stream(f"/api/sessions/{session}/messages/stream", question=WHEN) as stream:
        await anext(stream)
        assert (await talk.client.delete(f"/api/sessions/{session}")).status_code == 204
        async for event in stream:
            last = event
    await talk.provider.until(lambda provider: provider.left_early == 1)
    assert last.data["status"] == "partial"
    assert talk.sql("SELECT 1 FROM messages WHERE session_id = %(id)s", id=session) == []


# --- anew, feedback, export ---------------------------------------------------------------


async def test_a_new_answer_takes_the_place_of_the_old_one(talk: Talk) -> None:
    session = await talk.session(bases=[talk.bases["ferry"]])
    first = await talk.say(session, WHEN)
    await talk.say(session, "And the dogs?")
    talk.provider.chat = lambda body: "At a quarter past ten [1]."
    talk.provider.requests.clear()
    path = f"/api/sessions/{session}/messages/{first['message_id']}/regenerate"
    second = (await talk.client.post(path, json={})).json()
    # The first question of the session has no history, whatever was said after it.
    (body,) = talk.provider.bodies("/chat/completions")
    assert len(body["messages"]) == 2
    assert (second["answer"], second["question_id"]) == ("At a quarter past ten [1].", first["question_id"])
    old = await talk.message(session, first["message_id"])
    assert old["replaced_by"] == second["message_id"]
    assert (await talk.client.post(path, json={})).json()["code"] == "session.replaced"
    path = f"/api/sessions/{session}/messages/{second['message_id']}/regenerate/stream"
    third = (await talk.streamed(path))[-1].data
    talk.provider.requests.clear()
    await talk.say(session, "Is that sure?")
    said = [m["content"] for m in talk.provider.bodies("/chat/completions")[-1]["messages"]]
    assert said[1:5] == [WHEN, third["answer"], "And the dogs?", "It leaves at 22:15 [1]."]
    path = f"/api/sessions/{session}/messages/{first['question_id']}/regenerate"
    assert (await talk.client.post(path, json={})).json()["code"] == "session.no_answer"


async def test_an_answer_made_anew_that_fails_leaves_the_old_one_in_its_place(talk: Talk) -> None:
    session = await talk.session(bases=[talk.bases["ferry"]])
    first = await talk.say(session, WHEN)
    talk.sql("ALTER TABLE chunks RENAME TO chunks_away")
    try:
        path = f"/api/sessions/{session}/messages/{first['message_id']}/regenerate/stream"
        found = await talk.streamed(path)
    finally:
        talk.sql("ALTER TABLE chunks_away RENAME TO chunks")
    assert found[-1].name == "error"
    assert (await talk.message(session, first["message_id"]))["replaced_by"] is None


async def test_a82_feedback_is_kept_with_its_answer_and_listed_with_the_question(talk: Talk) -> None:
    session = await talk.session(bases=[talk.bases["ferry"]])
    reply = await talk.say(session, WHEN)
    path = f"/api/sessions/{session}/messages/{reply['message_id']}/feedback"
    rated = await talk.client.put(path, json={"rating": -1, "text": "Winter timetable. 不对"})
    assert (rated.json()["feedback"], rated.json()["feedback_text"]) == (-1, "Winter timetable. 不对")
    listed = (await talk.client.get("/api/feedback", params={"rating": -1})).json()
    assert listed["items"][0]["question"] == WHEN
    assert listed["items"][0]["text"] == "Winter timetable. 不对"
    assert (await talk.client.get("/api/feedback", params={"rating": 1})).json()["total"] == 0
    assert (await talk.client.put(path, json={"rating": None})).json()["feedback"] is None
    for body in ({"rating": 2}, {"rating": 1, "text": "x" * 2_001}, {}):
        assert (await talk.client.put(path, json=body)).status_code == 422
    path = f"/api/sessions/{session}/messages/{reply['question_id']}/feedback"
    assert (await talk.client.put(path, json={"rating": 1})).status_code == 409


async def test_a_conversation_is_exported_as_markdown(talk: Talk) -> None:
    session = await talk.session(bases=[talk.bases["ferry"]], title='渡轮 / "Halm"')
    first = await talk.say(session, WHEN)
    await talk.client.post(f"/api/sessions/{session}/messages/{first['message_id']}/regenerate", json={})
    await talk.say(session, "And\nthe dogs?")
    response = await talk.client.get(f"/api/sessions/{session}/export", headers={"Accept-Language": "zh"})
    assert response.headers["content-type"] == "text/markdown; charset=utf-8"
    assert (
        "filename*=UTF-8''%E6%B8%A1%E8%BD%AE%20%2F%20%22Halm%22.md" in response.headers["content-disposition"]
    )
    lines = response.text.splitlines()
    assert lines[0] == '# 渡轮 / "Halm"'
    assert [line for line in lines if line.startswith("##")] == ["## 提问", "## 回答"] * 2
    assert "> And" in lines
    assert "> the dogs?" in lines
    assert "- [1] ferry.txt" in lines
    assert "  > The ferry leaves Halm at 22:15." in lines


# --- deleted documents -------------------------------------------------------------------


async def test_c43_a_document_that_is_deleted_leaves_stored_answers_and_their_export(talk: Talk) -> None:
    talk.bases |= await filled(talk.home, talk.database, secret="The password of the safe is Birnbaum 47.")
    session = await talk.session(bases=[talk.bases["secret"]])
    talk.provider.chat = lambda body: "It says “The password of the safe is Birnbaum 47.” [1]."
    reply = await talk.say(session, "What is the password of the safe?")
    document_id = reply["citations"][0]["document_id"]
    report = await talk.client.delete(f"/api/documents/{document_id}")
    assert report.status_code == 200, report.text
    message = await talk.message(session, reply["message_id"])
    assert message["citations"][0]["removed"] is message["sources"][0]["removed"] is True
    assert message["content"] == "It says “[removed: the document was deleted]” [1]."
    exported = await talk.client.get(f"/api/sessions/{session}/export")
    assert "[1] [removed: the document was deleted]" in exported.text
    assert "Birnbaum" not in exported.text + str(message)
    stored = talk.sql("SELECT m::text FROM messages m WHERE session_id = %(id)s", id=session)
    assert "Birnbaum" not in str(stored)


async def test_a_base_is_asked_by_its_own_settings(talk: Talk) -> None:
    """A base's own min-score refuses what is too far; its own top-k limits the passages."""
    talk.bases |= await filled(talk.home, talk.database, strict="The harbour master is called Ines.")
    path = f"/api/bases/{talk.bases['strict']}"
    changed = await talk.client.patch(path, json={"settings": {"min_score": 0.99}})
    assert changed.status_code == 200, changed.text
    session = await talk.session(bases=[talk.bases["strict"]])
    reply = await talk.say(session, "Is there a bakery in Oster?")
    assert (reply["answered"], reply["sources"]) == (False, [])
    assert talk.provider.requests == []


async def test_a_session_whose_base_is_gone_says_so(talk: Talk) -> None:
    talk.bases |= await filled(talk.home, talk.database, gone="Gone is gone.")
    session = await talk.session(bases=[talk.bases["gone"]])
    talk.sql("DELETE FROM session_bases WHERE session_id = %(id)s", id=session)
    response = await talk.client.post(f"/api/sessions/{session}/messages", json={"question": "x"})
    assert (response.status_code, response.json()["code"]) == (409, "session.bases_gone")
