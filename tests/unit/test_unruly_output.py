"""What models and servers write in their own way is taken as meant."""

from __future__ import annotations

import pytest

from ragstone.errors import InvalidFilter
from ragstone.filters import And, Compare, Equal, Filter, Or, checked_filter, parse
from ragstone.generate.visible import TagFilter
from ragstone.readback import read_lines
from ragstone.rerank.judge import ChatJudge
from ragstone.route import LanguageModelRouter, Route
from ragstone.testing.chat import FakeChatModel
from ragstone.types import Hit, Query

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("cut", [1, 4, 10_000])
@pytest.mark.parametrize(
    "said",
    [
        "◁think▷It may be a fan.◁/think▷The pump.",
        "<analysis>It may be a fan.</analysis>The pump.",
        "<|channel|>analysis<|message|>It may be a fan.<|end|>"
        "<|start|>assistant<|channel|>final<|message|>The pump.",
        "<|start|>assistant<|channel|>commentary to=x<|message|>hm<|end|>"
        "<|channel|>final<|message|>The pump.<|return|>",
        "The pump.<|end|>",
    ],
)
def test_reasoning_in_every_dialect_is_not_shown(said: str, cut: int) -> None:
    tags = TagFilter()
    shown = "".join(tags.feed(said[at : at + cut]) for at in range(0, len(said), cut)) + tags.finish()
    assert (shown, tags.text) == ("The pump.", "The pump.")


@pytest.mark.parametrize("tail", ["x <| f y", "a <|b", "<analysis of", "◁ left"])
def test_text_that_only_looks_like_a_tag_is_shown(tail: str) -> None:
    tags = TagFilter()
    assert "".join(map(tags.feed, tail)) + tags.finish() == tail


@pytest.mark.parametrize(
    "said",
    [
        "A. pump price\nB. pump service\nC. pump parts",
        "a) pump price\nb) pump service\nc) pump parts",
        "一、pump price\n二、pump service\n三、pump parts",
        "（一）pump price\n（二）pump service\n（三）pump parts",
        "问题一：pump price\n问题二：pump service\n问题三：pump parts",
        '["pump price", "pump service", "pump parts",]',
        '{"queries": ["pump price", "pump service", "pump parts",],}\nThese cover the question.',
        '["pump price", "pump service", "pump parts"]\n\nI hope that helps, ask again.',
    ],
)
def test_a_list_of_wordings_is_read_however_it_is_numbered(said: str) -> None:
    assert read_lines(said, 3) == ["pump price", "pump service", "pump parts"]


@pytest.mark.parametrize(
    "said",
    [
        '[{"passage": 1, "score": 9}, {"passage": 2, "score": 1}]',
        '[{"index": "2", "relevance": "1/10"}, {"index": "1", "relevance": "9/10"}]',
        '{"1": "9/10", "2": "1/10"}',
        '["9/10", "1/10"]',
        "1: 9/10\n2: 1/10",
    ],
)
async def test_a_judge_may_answer_with_objects_or_out_of_ten(said: str) -> None:
    assert await ChatJudge(FakeChatModel(said)).score("q", ["a", "b"]) == [0.9, 0.1]


async def test_a_judge_s_five_of_five_is_the_best() -> None:
    assert await ChatJudge(FakeChatModel('["5/5", "1/5"]')).score("q", ["a", "b"]) == [1.0, 0.2]


@pytest.mark.parametrize(
    "said", ["2", "[2]", "2.", "The staff handbook would know.", "I would ask the staff handbook, of course"]
)
async def test_a_router_may_answer_with_a_number_or_a_sentence(said: str) -> None:
    async def manuals(query: Query) -> list[Hit]:
        return []

    async def handbook(query: Query) -> list[Hit]:
        return []

    routes = {"manuals": Route("of machines", manuals), "staff handbook": Route("for people", handbook)}
    assert await LanguageModelRouter(FakeChatModel(said), routes)(Query("holidays?")) == [handbook]


def test_a_mandatory_filter_is_counted_apart_from_a_request_s() -> None:
    many: Filter = Equal("k", 0)
    for n in range(1, 200):
        many = Or(many, Equal("k", n))
    assert checked_filter(And(Equal("owner", "ann"), many)) is not None
    with pytest.raises(InvalidFilter):
        checked_filter(Or(many, Equal("k", 200)))
    with pytest.raises(InvalidFilter):
        checked_filter(And(Equal("owner", "ann"), Or(many, Equal("k", 200))))


@pytest.mark.parametrize(("text", "value"), [("n >= 5L", 5), ("n >= -5l", -5), ("n >= 5", 5)])
def test_a_whole_number_may_be_written_as_java_does(text: str, value: int) -> None:
    assert parse(text) == Compare("n", ">=", value)
