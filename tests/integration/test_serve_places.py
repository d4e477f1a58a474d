"""Pages, slides and rows of citations over HTTP: answers, searches, chunks, stored messages, exports."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from making import lines, pdf, shape, slides
from ragstone.kb.facade import KnowledgeBases
from ragstone.kb.settings import load
from talking import Talk

pytestmark = pytest.mark.anyio

QUOTE = "Badgers travel free of charge on the upper deck."
NEXT = {"page": 2, "page_end": 2}


def flowing() -> bytes:
    """Two short pages, which are one passage."""
    return pdf([lines("The night boat leaves Halm at 22:15", "and takes two hours."), lines(QUOTE)])


async def added(talk: Talk, name: str, data: bytes) -> str:
    """The id of a new base with this file."""
    given = {"home": talk.home, "database_url": talk.database, "test_embedder": "fake"}
    settings = await anyio.to_thread.run_sync(lambda: load({}, overrides=given))
    bases = await KnowledgeBases.open(settings)
    try:
        await anyio.Path(talk.home / name).write_bytes(data)
        await bases.add(talk.home / name, base=name)
        return next(info.base_id for info in await bases.bases() if info.name == name)
    finally:
        await bases.aclose()


async def post(talk: Talk, path: str, **body: Any) -> dict[str, Any]:
    response = await talk.client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def test_the_page_of_a_citation_is_the_page_of_its_quote(talk: Talk) -> None:
    base = await added(talk, "boat.pdf", flowing())
    talk.provider.chat = lambda body: f"{QUOTE[:-1]} [1]."
    answer = await post(talk, "/api/ask", question="Do badgers travel free?", bases=[base])
    (citation,) = answer["citations"]
    assert citation["quote"] == QUOTE
    assert {name: citation[name] for name in NEXT} == NEXT
    assert citation["place"]["page"] == 2
    (source,) = answer["sources"]
    assert (source["page"], source["page_end"]) == (1, 2)
    (hit,) = (await post(talk, "/api/search", query="badgers", bases=[base]))["hits"]
    assert (hit["page"], hit["page_end"], hit["place"]["page_end"]) == (1, 2, 2)
    response = await talk.client.get(f"/api/documents/{hit['document_id']}/chunks")
    (chunk,) = response.json()["items"]
    assert (chunk["page"], chunk["page_end"], chunk["place"]["page_end"]) == (1, 2, 2)


async def test_a_message_stored_before_shows_the_page_of_its_quote_too(talk: Talk) -> None:
    base = await added(talk, "sloop.pdf", flowing())
    talk.provider.chat = lambda body: f"{QUOTE[:-1]} [1]."
    session = await talk.session(bases=[base])
    said = await talk.say(session, "Do badgers travel free?")
    assert said["citations"][0]["page"] == 2
    as_before = {**said["citations"][0], "page": 1}
    del as_before["place"], as_before["page_end"]
    talk.sql(
        "UPDATE messages SET citations = %(items)s WHERE message_id = %(id)s",
        items=json.dumps([as_before]),
        id=said["message_id"],
    )
    stored = await talk.message(session, said["message_id"])
    assert {name: stored["citations"][0][name] for name in NEXT} == NEXT
    for language, place in (("en", "page 2"), ("zh", "第 2 页")):
        exported = await talk.client.get(
            f"/api/sessions/{session}/export", headers={"Accept-Language": language}
        )
        assert place in exported.text
    # What the document says there now is not what was quoted: nothing is known of the quote any more.
    as_before["quote"] = "Cats travel free."
    talk.sql(
        "UPDATE messages SET citations = %(items)s WHERE message_id = %(id)s",
        items=json.dumps([as_before]),
        id=said["message_id"],
    )
    assert (await talk.message(session, said["message_id"]))["citations"][0]["page"] == 1


async def test_rows_and_slides_of_citations_stand_in_answers_and_exports(talk: Talk) -> None:
    table = b"stop,price\n\nHalm,three\nOster,four badgers\n"
    for name, data, words, expected in (
        ("fares.csv", table, "| Oster | four badgers |", {"row": 4, "row_end": 4}),
        ("talk.pptx", slides([shape("Boats"), shape(QUOTE)]), QUOTE, {"slide": 2, "page": 2}),
    ):
        base = await added(talk, name, data)
        talk.provider.chat = lambda body, words=words: f"{words} [1]"
        session = await talk.session(bases=[base])
        (citation,) = (await talk.say(session, "What of the badgers?"))["citations"]
        assert {name: citation["place"][name] for name in expected} == expected
        exported = await talk.client.get(f"/api/sessions/{session}/export")
        assert "row 4" in exported.text or "slide 2" in exported.text
