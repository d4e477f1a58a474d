"""One story told over HTTP to real processes: alone with everything embedded, and as a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from api import Api, shown, text_of
from deployment import Deployment
from making import lines, pdf, zipped

pytestmark = pytest.mark.xdist_group("application")

EN = b"# Timetable\n\nThe night ferry to Halm leaves from pier seven at 22:15.\n\nDogs travel free.\n"
ZH = "# 差旅报销制度\n\n出差返回后须在十五个工作日内提交报销单。\n\n住宿标准为每晚四百元。\n".encode()
HTML = (
    "<html><head><title>Roof garden</title></head><body><p>The lilies are watered at dawn.</p></body></html>"
)
PDF = pdf([lines("The turbine hall opens in spring."), lines("Lake Orrin is ninety metres deep.")])
ZIP = zipped(
    {"one/keeper.md": "The keeper of the lighthouse is called Ansgar.", "账单.txt": "电费在每月五日支付。"}
)
BROKEN = b"%PDF-1.7\nthis is no PDF any more"
NAME_ZH = "差旅报销制度.md"
FILES = [
    ("timetable.md", EN),
    (NAME_ZH, ZH),
    ("garden.html", HTML.encode()),
    ("lake.pdf", PDF),
    ("bundle.zip", ZIP),
    ("broken.pdf", BROKEN),
]


@dataclass(kw_only=True)
class Story:
    """What happened until now."""

    deployed: Deployment
    api: Api
    base_id: str = ""
    documents: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    session_id: str = ""

    def id_of(self, name: str) -> str:
        return self.documents[name]["document_id"]


@pytest.mark.parametrize("place", ["single", "cluster"])
def test_the_application_from_the_first_upload_to_the_last_deletion(
    request: pytest.FixtureRequest, place: str
) -> None:
    """Rows A83, A84, A85, A86, A87, A88, A89, A90, A91, A92, A93, A94, A95, A96, W16, W18, W23."""
    deployed: Deployment = request.getfixturevalue(place)
    with deployed.client() as client:
        story = Story(deployed=deployed, api=Api(client))
        files_become_documents(story)
        the_same_bytes_are_one_document(story)
        every_language_and_kind_is_found(story)
        a_question_is_answered_whole_and_as_a_stream(story)
        a_session_keeps_what_was_said(story)
        originals_and_chunks_are_shown(story, client)
        all_is_there_after_a_crash(story)
        it_is_counted(story)
        a_deleted_document_leaves_nothing(story, client)
        a_deleted_base_leaves_nothing(story)


def files_become_documents(story: Story) -> None:
    api = story.api
    story.base_id = api.make_base("Archive", description="All we keep.", category="Papers")
    made = api.upload(story.base_id, *FILES)
    assert [(item["name"], item["duplicate"]) for item in made] == [(name, False) for name, _ in FILES]
    story.documents = api.settled(story.base_id)
    statuses = {name: item["status"] for name, item in story.documents.items()}
    # The members of the archive are documents too.
    names = [name for name, _ in FILES] + ["keeper.md", "账单.txt"]
    assert statuses == {name: "failed" if name == "broken.pdf" else "ready" for name in names}
    broken = story.documents["broken.pdf"]
    assert broken["error"]["code"].startswith("parse.")
    assert "broken.pdf" in broken["error"]["detail"]
    listed = api.documents(story.base_id, sort="name", status="ready", search="lake")
    assert [item["name"] for item in listed] == ["lake.pdf"]


def the_same_bytes_are_one_document(story: Story) -> None:
    """Under another name too; and one that could not be read is tried again."""
    again = story.api.upload(story.base_id, ("other name.md", EN), ("broken again.pdf", BROKEN))
    assert [item["duplicate"] for item in again] == [True, True]
    found = [item["document"]["document_id"] for item in again]
    assert found == [story.id_of("timetable.md"), story.id_of("broken.pdf")]
    assert set(story.api.settled(story.base_id)) == set(story.documents)


QUESTIONS = {
    "Which pier does the night ferry leave from?": "timetable.md",
    "报销单须在几个工作日内提交？": NAME_ZH,
    "When are the lilies watered?": "garden.html",
    "How deep is Lake Orrin?": "lake.pdf",
    "Who is the keeper of the lighthouse?": "keeper.md",
}


def every_language_and_kind_is_found(story: Story) -> None:
    for question, name in QUESTIONS.items():
        hits = story.api.search(question, [story.base_id], top_k=3)
        assert hits[0]["document_id"] == story.id_of(name), (question, hits[0]["title"])
        if name == "lake.pdf":
            assert hits[0]["page"] == 1  # where the passage begins


def a_question_is_answered_whole_and_as_a_stream(story: Story) -> None:
    question, mode = (
        next(iter(QUESTIONS)),
        "model" if "chat_model" in story.deployed.settings else "extractive",
    )
    body = {"question": question, "bases": [story.base_id]}
    whole = story.api.ask(question, [story.base_id])
    assert (whole["status"], whole["answered"], whole["mode"]) == ("complete", True, mode)
    assert whole["citations"][0]["document_id"] == story.id_of("timetable.md")
    assert whole["citations"][0]["quote"] in EN.decode()
    events = story.api.streamed("/api/ask/stream", body)
    names = [event.name for event in events]
    assert names[0] == "stage"
    assert names.index("sources") < names.index("delta") < names.index("done") == len(names) - 1
    assert [event.event_id for event in events] == [str(n) for n in range(1, len(events) + 1)]
    assert text_of(events).strip() == events[-1].data["answer"] == whole["answer"]


def a_session_keeps_what_was_said(story: Story) -> None:
    api = story.api
    story.session_id = api.make_session(story.base_id, story.base_id)
    events = api.say(story.session_id, next(iter(QUESTIONS)))
    events += api.say(story.session_id, "And when does it leave?")
    done = [event.data for event in events if event.name == "done"]
    messages = api.messages(story.session_id)
    assert [message["seq"] for message in messages] == [1, 2, 3, 4]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 2
    assert {message["status"] for message in messages} == {"complete"}
    answers = messages[1::2]
    assert [answer["content"] for answer in answers] == [data["answer"] for data in done]
    for answer in answers:
        assert answer["citations"][0]["document_id"] == story.id_of("timetable.md")
    renamed = api.call("PATCH", f"/api/sessions/{story.session_id}", {"title": "Ferries", "pinned": True})
    assert (renamed["title"], renamed["pinned"], renamed["bases"]) == ("Ferries", True, [story.base_id])


def originals_and_chunks_are_shown(story: Story, client: httpx2.Client) -> None:
    document_id = story.id_of(NAME_ZH)
    path = f"/api/documents/{document_id}"
    whole = client.get(f"{path}/download")
    assert whole.content == ZH
    assert f"filename*=UTF-8''{quote(NAME_ZH)}" in whole.headers["content-disposition"]
    assert whole.headers["x-content-type-options"] == "nosniff"
    part = client.get(f"{path}/download", headers={"Range": "bytes=2-7"})
    assert (part.status_code, part.content) == (206, ZH[2:8])
    text = story.api.call("GET", f"{path}/text")["text"]
    for chunk in story.api.call("GET", f"{path}/chunks")["items"]:
        assert chunk["text"] == text[chunk["start"] : chunk["end"]]
    pages = story.api.call("GET", f"/api/documents/{story.id_of('lake.pdf')}/chunks")["items"]
    assert {chunk["page"] for chunk in pages} <= {1, 2}


def all_is_there_after_a_crash(story: Story) -> None:
    """All processes of ours are killed; what was answered before is there, and work goes on."""
    messages = story.api.messages(story.session_id)
    for name in story.deployed.names:
        story.deployed.kill(name)
    story.deployed.start()
    assert story.api.messages(story.session_id) == messages
    assert set(story.api.settled(story.base_id)) == set(story.documents)
    (late,) = story.api.upload(story.base_id, ("late.md", b"The orchard was planted after the crash."))
    assert story.api.settled(story.base_id)["late.md"]["status"] == "ready"
    hits = story.api.search("Which orchard was planted?", [story.base_id])
    assert hits[0]["document_id"] == late["document"]["document_id"]


def it_is_counted(story: Story) -> None:
    counted = story.api.call("GET", f"/api/bases/{story.base_id}/stats")
    states = ("documents", "pending", "processing", "ready", "failed")
    assert [counted[name] for name in states] == [9, 0, 0, 8, 1]
    assert (counted["questions"], counted["broken"]) == (4, 0)
    assert counted["total_ms_p95"] > 0


def a_deleted_document_leaves_nothing(story: Story, client: httpx2.Client) -> None:
    document_id = story.id_of("timetable.md")
    report = story.api.call("DELETE", f"/api/documents/{document_id}")
    assert report["rows"]["files"] == 1
    assert client.get(f"/api/documents/{document_id}").status_code == 404
    assert client.get(f"/api/documents/{document_id}/download").status_code == 404
    assert document_id not in shown(story.api.search("night ferry pier", [story.base_id], top_k=50))
    # What was quoted of it in answers is gone too.
    assert "pier seven" not in shown(story.api.messages(story.session_id)[1]["citations"])


def a_deleted_base_leaves_nothing(story: Story) -> None:
    story.api.call("DELETE", f"/api/bases/{story.base_id}")
    story.api.call("GET", f"/api/bases/{story.base_id}", status=404)
    ended = story.deployed.command("doctor", "--deep", "--json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
