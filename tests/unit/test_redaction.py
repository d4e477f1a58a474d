"""What leaves a stored answer with its documents, and values as a database can hold them."""

from __future__ import annotations

from typing import Any

import pytest

from ragstone.kb.plain import plain, plain_text
from ragstone.kb.redaction import Item, StoredAnswer, redacted

QUOTE = "The ferry leaves Halm at 22:15."
OTHER = "Dogs travel free of charge."


def item(n: int, document_id: str, **more: Any) -> Item:
    return {"n": n, "document_id": document_id, "title": "T", "uri": "u", "page": 3, "start": 0, **more}


def answer(content: str, **more: Any) -> StoredAnswer:
    given: dict[str, Any] = {
        "message_id": "m",
        "mode": "model",
        "answered": True,
        "citations": [item(1, "ferry", quote=QUOTE), item(2, "dogs", quote=OTHER)],
        "sources": [item(1, "ferry"), item(2, "dogs")],
    }
    return StoredAnswer(content=content, **(given | more))


def test_c43_citations_and_sources_of_what_is_gone_keep_their_numbers_only() -> None:
    left = redacted(answer("It leaves at 22:15 [1]. Dogs go free [2]."), {"ferry"})
    assert left.content == "It leaves at 22:15 [1]. Dogs go free [2]."
    gone = {"title": "", "uri": "", "removed": True}
    assert left.citations == [item(1, "ferry", quote="") | gone, item(2, "dogs", quote=OTHER)]
    assert left.sources == [item(1, "ferry") | gone, item(2, "dogs")]
    assert redacted(left, {"ferry"}) == left


def test_c43_what_a_model_quoted_word_for_word_leaves_its_text() -> None:
    left = redacted(answer(f"It says: “{QUOTE}” [1]. {OTHER} [2]"), {"ferry"})
    assert left.content == f"It says: “[removed: the document was deleted]” [1]. {OTHER} [2]"
    left = redacted(answer(f"书上写着：“{QUOTE}”是这样的 [1]。"), {"ferry"})
    assert "［已移除：文档已删除］" in left.content


def test_c43_a_word_of_anybody_stays_in_a_models_text() -> None:
    short = [item(1, "ferry", quote="22:15")]
    assert redacted(answer("At 22:15 [1].", citations=short), {"ferry"}).content == "At 22:15 [1]."


def test_c43_an_extractive_answer_is_written_anew_from_the_quotes_that_remain() -> None:
    text = f"{QUOTE} [1]\n\n{OTHER} [2]"
    left = redacted(answer(text, mode="extractive"), {"ferry"})
    assert left.content == f"{OTHER} [2]"
    assert redacted(left, {"dogs"}).content == "[removed: the document was deleted]"


@pytest.mark.parametrize("gone", [{"ferry"}, {"dogs"}, {"ferry", "dogs"}])
def test_c43_an_extractive_answer_that_was_cut_off_keeps_nothing(gone: set[str]) -> None:
    cut = answer(f"{QUOTE[:20]}", mode="extractive", answered=None, citations=[])
    assert redacted(cut, gone).content == "[removed: the document was deleted]"


def test_a_refusal_quotes_nothing_and_stays() -> None:
    refusal = answer("I found nothing.", mode="extractive", answered=False, citations=[])
    assert redacted(refusal, {"ferry"}).content == "I found nothing."


def test_text_that_no_database_holds_is_replaced() -> None:
    assert plain_text("a\0b") == "a\ufffdb"
    assert plain_text("x\ud83dy") == "x\ufffdy"
    assert plain_text("深 \ud83d\ude00") == "深 😀"
    assert plain_text("plain\n深") == "plain\n深"


def test_values_that_json_cannot_hold_are_replaced() -> None:
    given = {"a\0": [float("nan"), 1.5, True, None, ("x\ud83d",)], "b": {"c": object}}
    assert plain(given) == {
        "a\ufffd": [None, 1.5, True, None, ["x\ufffd"]],
        "b": {"c": "<class 'object'>"},
    }
