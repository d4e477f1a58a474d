"""Selectors: what they keep, in which order."""

from __future__ import annotations

import math

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.confirm import confirmed
from ragstone.errors import InvalidQuery, InvalidStage
from ragstone.protocols import Selector
from ragstone.select import MMR, Threshold, TokenBudget, TopN, dedupe, ends_first, first
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


async def test_w30_the_budget_drops_the_lowest_first() -> None:
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
    for select in (
        Threshold(scale="cosine", minimum=0),
        TopN(1),
        TokenBudget(1),
        dedupe,
        MMR(1),
        first,
        ends_first,
    ):
        assert await kept(select) == ""


async def test_parameters_that_cannot_work_are_refused() -> None:
    with pytest.raises(InvalidStage, match="nan"):
        Threshold(scale="cosine", minimum=math.nan)
    with pytest.raises(InvalidQuery, match="0"):
        TopN(0)
    for tokens in (0, True, 1.5):
        with pytest.raises(InvalidStage, match=str(tokens)):
            TokenBudget(tokens)  # type: ignore[arg-type]
    for balance in (-0.1, 1.1, math.nan):
        with pytest.raises(InvalidStage, match=str(balance)):
            MMR(3, balance=balance)
    with pytest.raises(InvalidQuery, match="0"):
        MMR(0)


async def test_w04_the_first_of_nothing_is_nothing() -> None:
    assert await kept(first, hit("a"), hit("b")) == "a"
    assert await kept(first) == ""


async def test_the_best_stand_at_both_ends() -> None:
    assert await kept(ends_first, *(hit(letter) for letter in "123456")) == "135642"
    assert await kept(ends_first, *(hit(letter) for letter in "12345")) == "13542"


async def test_c31_mmr_prefers_another_matter_to_a_near_copy() -> None:
    hits = [
        hit("a", "the pump is serviced every year", cosine=0.9),
        hit("b", "the pump is serviced every single year", cosine=0.89),
        hit("c", "spare parts are kept in hall three", cosine=0.8),
        hit("d", "lunch", cosine=0.1),
    ]
    assert await kept(MMR(3), *hits) == "acb"
    assert await kept(MMR(3, balance=1.0), *hits) == "abc"
    assert await kept(MMR(2, likeness=lambda one, other: 0.0), *hits) == "ab"


async def test_mmr_takes_hits_without_a_finite_score_last() -> None:
    hits = [hit("a"), hit("b", "b", cosine=math.nan), hit("c", "c", cosine=0.2), hit("d", "d", cosine=0.4)]
    assert await kept(MMR(4), *hits) == "dabc"


HITS = st.lists(
    st.tuples(st.sampled_from(["pump", "hall", "pump hall", "price", ""]), st.floats()), max_size=8
).map(lambda items: [hit(f"{n}", text, cosine=value) for n, (text, value) in enumerate(items)])


@given(HITS, st.integers(1, 9), st.floats(0, 1))
@settings(deadline=None)
def test_selecting_neither_makes_nor_doubles_hits(hits: list[Hit], n: int, balance: float) -> None:
    async def select() -> None:
        chosen = await MMR(n, balance=balance)(Query("q"), list(hits))
        assert len(chosen) == min(n, len(hits))
        for some in (chosen, await ends_first(Query("q"), list(hits))):
            assert len({id(one) for one in some}) == len(some)
            assert all(any(one is known for known in hits) for one in some)
        assert len(await ends_first(Query("q"), list(hits))) == len(hits)

    anyio.run(select)


@given(HITS, st.integers(1, 9), st.floats(-1, 1), st.integers(1, 20))
@settings(deadline=None)
def test_selecting_keeps_the_order_and_the_hits_as_they_are(
    hits: list[Hit], n: int, minimum: float, tokens: int
) -> None:
    tokenizer = FakeEmbedder().tokenizer
    selectors: list[Selector] = [
        Threshold(scale="cosine", minimum=minimum),
        TopN(n),
        TokenBudget(tokens, tokenizer),
        dedupe,
        first,
        confirmed,
    ]

    async def select() -> None:
        for selector in selectors:
            chosen = await selector(Query("pump"), list(hits))
            places = [next(at for at, known in enumerate(hits) if known is one) for one in chosen]
            assert places == sorted(set(places))
            if selector is selectors[2]:
                assert sum(tokenizer.count(one.chunk.embedding_text) for one in chosen) <= tokens

    anyio.run(select)
