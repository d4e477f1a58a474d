"""Selectors: what they keep, in which order."""

from __future__ import annotations

import math

import pytest

from ragstone.errors import InvalidQuery, InvalidStage
from ragstone.protocols import Selector
from ragstone.select import Threshold, TokenBudget, TopN, dedupe
from ragstone.testing import FakeEmbedder
from ragstone.types import Chunk, Hit, Query, Score

pytestmark = pytest.mark.anyio


def hit(name: str, text: str = "", *, context: str = "", **scores: float) -> Hit:
    chunk = Chunk(text=text or name, document_id="d", index=0, start=0, end=1, chunk_id=name, context=context)
    found = tuple(Score(stage="s", scale=scale, value=value, rank=1) for scale, value in scores.items())
    return Hit(chunk=chunk, uri="u", title="t", scores=found)


async def kept(select: Selector, *hits: Hit) -> str:
    return "".join(hit.chunk.chunk_id for hit in await select(Query("question"), list(hits)))


async def test_a_threshold_judges_its_own_scale_only() -> None:
    hits = [
        hit("a", cosine=0.9, hybrid=0.1),
        hit("b", cosine=0.8),
        hit("c", cosine=0.7, hybrid=1.0),
        hit("d", text=9.0),
        hit("e", cosine=math.nan),
    ]
    assert await kept(Threshold(scale="cosine", minimum=0.8), *hits) == "abd"
    assert await kept(Threshold(scale="cosine", minimum=0.8, unscored=False), *hits) == "ab"


async def test_top_n_keeps_the_first() -> None:
    assert await kept(TopN(2), hit("a"), hit("b"), hit("c")) == "ab"
    assert await kept(TopN(2), hit("a")) == "a"


async def test_the_budget_drops_the_lowest_first() -> None:
    tokenizer = FakeEmbedder().tokenizer
    hits = [hit("a", "one two three"), hit("b", "four five", context="six"), hit("c", "seven")]
    assert await kept(TokenBudget(7, tokenizer), *hits) == "abc"
    assert await kept(TokenBudget(6, tokenizer), *hits) == "ab"
    # c would fit, but a better passage has gone already.
    assert await kept(TokenBudget(5, tokenizer), *hits) == "a"


async def test_a_passage_over_the_whole_budget_does_not_cost_the_others() -> None:
    tokenizer = FakeEmbedder().tokenizer
    hits = [hit("a", "word " * 50), hit("b", "four five"), hit("c", "six")]
    assert await kept(TokenBudget(3, tokenizer), *hits) == "bc"


async def test_without_a_tokenizer_the_budget_is_estimated() -> None:
    assert await kept(TokenBudget(4), hit("a", "水泵坏了"), hit("b", "x")) == "a"
    assert await kept(TokenBudget(5), hit("a", "水泵坏了"), hit("b", "x")) == "ab"


async def test_duplicates_by_id_or_text_go_the_first_stays() -> None:
    hits = [hit("a", "same"), hit("b", "other"), hit("a", "third"), hit("c", "same"), hit("d", "third")]
    assert await kept(dedupe, *hits) == "ab"


async def test_nothing_selected_from_nothing() -> None:
    for select in (Threshold(scale="cosine", minimum=0), TopN(1), TokenBudget(1), dedupe):
        assert await kept(select) == ""


async def test_parameters_that_cannot_work_are_refused() -> None:
    with pytest.raises(InvalidStage, match="nan"):
        Threshold(scale="cosine", minimum=math.nan)
    with pytest.raises(InvalidQuery, match="0"):
        TopN(0)
    for tokens in (0, True, 1.5):
        with pytest.raises(InvalidStage, match=str(tokens)):
            TokenBudget(tokens)  # type: ignore[arg-type]
