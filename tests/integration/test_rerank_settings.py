"""RAGSTONE_RERANK_*: answers whose passages a reranker has chosen, against a real database."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from provider import Fault, Provider
from ragstone.errors import InvalidSetting
from ragstone.kb.facade import KnowledgeBases
from ragstone.kb.settings import load

pytestmark = pytest.mark.anyio

PUMP = "The pump service plan for night shifts is kept in hall three."
OTHERS = ["Lunch is served at noon.", "The pump is green.", "The hall has three doors."]
QUESTION = "pump service plan night shifts"


@pytest.mark.parametrize(
    ("kind", "path"), [("cohere", "/v1"), ("dashscope", "/api/v1"), ("tei", ""), ("judge", "/v1")]
)
async def test_a100_each_kind_of_reranker_is_reached_by_its_settings(
    kind: str, path: str, embedded_database: str, tmp_path: Path
) -> None:
    def say(body: dict[str, object]) -> str:
        # The judge is asked for a JSON object; it likes the first passage best.
        return '{"1": 10}' if "JSON" in str(body["messages"]) else "In hall three [1]."

    async with Provider(chat=say) as provider:
        settings: dict[str, object] = {
            "home": tmp_path,
            "database_url": embedded_database,
            "test_embedder": "fake",
            "chat_base_url": f"{provider.url}/v1",
            "chat_model": "m",
            "rerank_kind": kind,
        }
        if kind != "judge":
            settings |= {
                "rerank_base_url": provider.url + path,
                "rerank_model": "small",
                "rerank_api_key": "k",
                "rerank_min_score": 0.9,
            }
        for n, text in enumerate([PUMP, *OTHERS]):
            await anyio.Path(tmp_path / f"{n}.txt").write_text(text)
        loaded = await anyio.to_thread.run_sync(lambda: load({}, overrides=settings))
        bases = await KnowledgeBases.open(loaded)
        try:
            await bases.add(*(tmp_path / f"{n}.txt" for n in range(4)), base=kind)
            answer = await bases.ask(QUESTION, bases=[kind])
            assert len(answer.retrieved) == 4
            assert [hit.chunk.text for hit in answer.hits] == [PUMP]
            name = "judge/m" if kind == "judge" else "small"
            assert answer.hits[0].scores[-1].scale == f"rerank:{name}"
            assert answer.degraded == ()
            await check_searches(bases, kind, f"rerank:{name}")
            if kind != "judge":
                provider.fail(Fault(status=400), path="rerank")
                answer = await bases.ask(QUESTION, bases=[kind])
                assert answer.degraded == ("reranker_failed",)
                assert len(answer.hits) == 4
                refused = await bases.ask("nothing of that kind", bases=[kind])
                assert (refused.answered, refused.hits) == (False, ())
        finally:
            await bases.aclose()


async def check_searches(bases: KnowledgeBases, base: str, scale: str) -> None:
    """A search is reranked by default, keeps all it found, and can go without."""
    for rerank in (None, True):
        found = await bases.search(QUESTION, bases=[base], rerank=rerank)
        assert found.hits[0].chunk.text == PUMP
        assert found.hits[0].scores[-1].scale == scale
        assert len(found.hits) == 4
    plain = await bases.search(QUESTION, bases=[base], rerank=False)
    assert all(hit.on(scale) is None for hit in plain.hits)


async def test_c51_reranking_without_a_reranker_is_refused(embedded_database: str, tmp_path: Path) -> None:
    settings = {"home": tmp_path, "database_url": embedded_database, "test_embedder": "fake"}
    loaded = await anyio.to_thread.run_sync(lambda: load({}, overrides=settings))
    bases = await KnowledgeBases.open(loaded)
    try:
        with pytest.raises(InvalidSetting, match="RAGSTONE_RERANK_KIND"):
            await bases.search("x", rerank=True)
    finally:
        await bases.aclose()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"rerank_kind": "cohere"}, "rerank_base_url"),
        ({"rerank_kind": "cohere", "rerank_base_url": "http://x"}, "rerank_model"),
        ({"rerank_kind": "tei"}, "rerank_base_url"),
        ({"rerank_kind": "judge"}, "chat_base_url"),
        ({"rerank_base_url": "http://x"}, "rerank_kind"),
        ({"rerank_kind": "other"}, "rerank_kind"),
        ({"rerank_top_n": "0"}, "rerank_top_n"),
        ({"rerank_min_score": "nan"}, "rerank_min_score"),
    ],
)
def test_c51_a_reranker_is_set_up_whole_or_refused(
    settings: dict[str, str], named: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidSetting, match=named):
        load({"RAGSTONE_HOME": str(tmp_path)} | {f"RAGSTONE_{k.upper()}": v for k, v in settings.items()})


def test_the_key_is_masked(tmp_path: Path) -> None:
    given = {"rerank_kind": "tei", "rerank_base_url": "http://u:hidden1@x", "rerank_api_key": "hidden2"}
    shown = str(load({}, overrides={"home": tmp_path, **given}).shown())
    assert "hidden" not in shown
