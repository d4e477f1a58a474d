"""Routers: which retrievers a question goes to (A50)."""

from __future__ import annotations

import pytest

from ragstone.errors import InvalidStage, ProviderError, ProviderUnavailable
from ragstone.route import LanguageModelRouter, Route, RouteAll
from ragstone.testing.chat import FakeChatModel
from ragstone.trace import Trace
from ragstone.types import Hit, Query

pytestmark = pytest.mark.anyio


async def manuals(query: Query) -> list[Hit]:
    return []


async def prices(query: Query) -> list[Hit]:
    return []


ROUTES = {
    "manuals": Route("How machines are used and serviced", manuals),
    "Price list": Route("What things cost", prices),
}
BROKEN = ProviderUnavailable("chat.connection", url="x")


async def test_a50_all_goes_to_all() -> None:
    assert list(await RouteAll(manuals, prices)(Query("a"))) == [manuals, prices]
    with pytest.raises(InvalidStage):
        RouteAll()


@pytest.mark.parametrize(
    ("output", "chosen"),
    [
        ('{"sources": ["manuals"]}', [manuals]),
        ('<think>both?</think>```json\n{"sources": ["price LIST", "manuals"]}\n```', [manuals, prices]),
        ('["Price list", "Price list"]', [prices]),
        ("manuals", [manuals]),
        ("- manuals\n- Price list", [manuals, prices]),
        ("manuals, price list.", [manuals, prices]),
    ],
)
async def test_a50_a_model_chooses_by_description_and_may_pick_several(
    output: str, chosen: list[object]
) -> None:
    chat = FakeChatModel(output)
    assert list(await LanguageModelRouter(chat, ROUTES)(Query("How is it serviced?"))) == chosen
    said = chat.requests[0][-1].content
    assert "- manuals: How machines are used and serviced" in said
    assert "How is it serviced?" in said


async def test_a_name_that_does_not_exist_is_ignored_and_noted() -> None:
    trace = Trace()
    with trace.stage("route") as detail:
        chosen = await LanguageModelRouter(FakeChatModel('{"sources": ["web", "manuals"]}'), ROUTES)(
            Query("a")
        )
    assert list(chosen) == [manuals]
    assert (detail["routes_unknown"], detail["routes"], trace.degraded) == (["web"], ["manuals"], [])


@pytest.mark.parametrize("answer", [BROKEN, "", '{"sources": []}', '{"sources": ["web"]}', "I cannot say."])
async def test_a50_the_three_fallbacks(answer: str | Exception) -> None:
    for fallback, expected in (("none", []), ("all", [manuals, prices])):
        trace = Trace()
        with trace.stage("route"):
            router = LanguageModelRouter(FakeChatModel(answer), ROUTES, fallback=fallback)  # type: ignore[arg-type]
            assert list(await router(Query("a"))) == expected
        assert trace.degraded == ["route_failed"]
    with pytest.raises(ProviderError):
        await LanguageModelRouter(FakeChatModel(answer), ROUTES, fallback="fail")(Query("a"))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"routes": {}}, "at least one"),
        ({"routes": {" ": Route("x", manuals)}}, "blank"),
        ({"routes": {"a": Route("", manuals)}}, "'a'"),
        ({"routes": ROUTES, "fallback": "some"}, "'some'"),
        ({"routes": ROUTES, "template": "{query}"}, "sources"),
    ],
)
def test_a10_what_cannot_work_is_refused_when_built(options: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidStage, match=named):
        LanguageModelRouter(FakeChatModel("x"), **options)  # type: ignore[arg-type]
