"""Fusion of rankings, on hits of our own."""

from __future__ import annotations

import math
from dataclasses import fields
from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.errors import InvalidStage
from ragstone.fuse import concatenate, hybrid, reciprocal_rank, two_stage, weighted
from ragstone.types import Chunk, Hit, Score


def hit(name: str, value: float | None = None, *, scale: str = "cosine", rank: int = 1) -> Hit:
    chunk = Chunk(text=name, document_id="d", index=0, start=0, end=len(name), chunk_id=name)
    scores = () if value is None else (Score(stage="retrieve", scale=scale, value=value, rank=rank),)
    return Hit(chunk=chunk, uri="u", title="t", scores=scores)


def ranking(scale: str = "cosine", /, **values: float) -> list[Hit]:
    return [hit(name, value, scale=scale, rank=i) for i, (name, value) in enumerate(values.items(), start=1)]


def plain(names: str) -> list[Hit]:
    return [hit(name) for name in names]


def names(hits: list[Hit]) -> str:
    return "".join(hit.chunk.chunk_id for hit in hits)


def test_reciprocal_rank_sums_over_the_rankings() -> None:
    fused = reciprocal_rank([plain("ab"), plain("bc")])
    assert names(fused) == "bac"
    assert [hit.score for hit in fused] == pytest.approx([1 / 61 + 1 / 62, 1 / 61, 1 / 62])


def test_w26_weights_and_k_change_the_shares() -> None:
    fused = reciprocal_rank([plain("a"), plain("b")], k=1, weights=[1, 3])
    assert [(hit.chunk.chunk_id, hit.score) for hit in fused] == [("b", 1.5), ("a", 0.5)]


def test_w03_equal_scores_go_by_best_single_rank_then_by_first_seen() -> None:
    # x: rank 2 twice; y: ranks 1 and 5, with k=1: 2/3 = 1/2 + 1/6.
    first, second = plain("yxabc"), plain("pxqry")
    fused = reciprocal_rank([first, second], k=1)
    assert names(fused)[:2] == "yx"
    assert names(reciprocal_rank([second, first], k=1))[:2] == "yx"
    assert names(reciprocal_rank([plain("ab"), plain("cd")])) == "acbd"


def test_the_order_of_rankings_changes_no_score() -> None:
    rankings = [plain("abcdefg"), plain("gfedcba"), plain("dcg"), plain("bafe")]
    scores = {
        tuple(sorted((hit.chunk.chunk_id, hit.score) for hit in reciprocal_rank(order)))
        for order in permutations(rankings)
    }
    assert len(scores) == 1


def test_w25_w26_every_stage_stays_on_the_hit_with_the_name_of_its_scale() -> None:
    fused = weighted([ranking(a=0.9, b=0.5), ranking("text", b=7.0, c=3.0)])
    by_name = {hit.chunk.chunk_id: hit for hit in fused}
    assert [(s.stage, s.scale, s.rank) for s in by_name["b"].scores] == [
        ("retrieve", "cosine", 2),
        ("retrieve", "text", 1),
        ("fuse", "weighted", 2),
    ]
    assert by_name["b"].on("cosine") == 0.5
    assert by_name["b"].on("text") == 7.0
    twice = reciprocal_rank([fused, fused])
    assert [s.scale for s in twice[0].scores].count("weighted") == 1
    assert twice[0].scores[-1].scale == "rrf"


def test_hybrid_adds_words_to_meaning_by_what_they_are_worth() -> None:
    fused = hybrid([ranking(a=0.9, b=0.8), ranking("text", b=0.6, c=0.5)])
    scores = {hit.chunk.chunk_id: hit.score for hit in fused}
    # c was found by words alone: it takes the last cosine.
    assert scores == pytest.approx({"a": 0.45, "b": (0.8 + 0.36) / 2, "c": (0.8 + 0.25) / 2})
    assert [hit.chunk.chunk_id for hit in fused] == ["b", "c", "a"]
    assert [(s.scale, s.rank) for s in fused[0].scores] == [("cosine", 2), ("text", 1), ("hybrid", 1)]


def test_hybrid_is_meaning_alone_where_few_words_are_shared() -> None:
    nearest = ranking(a=0.9, b=0.88, c=0.86)
    fused = hybrid([nearest, ranking("text", c=0.1, b=0.05)])
    assert [hit.chunk.chunk_id for hit in fused] == ["a", "b", "c"]
    assert [hit.chunk.chunk_id for hit in hybrid([nearest, []])] == ["a", "b", "c"]
    assert [hit.chunk.chunk_id for hit in hybrid([[], ranking("text", c=0.4)])] == ["c"]
    heavier = hybrid([nearest, ranking("text", c=0.1, b=0.05)], text_weight=10)
    assert [hit.chunk.chunk_id for hit in heavier] == ["c", "b", "a"]
    assert hybrid([[], []]) == []


@pytest.mark.parametrize(
    ("rankings", "weight"), [([[]], 1.0), ([[], [], []], 1.0), ([[], []], -1.0), ([[], []], math.nan)]
)
def test_hybrid_takes_two_rankings_and_a_finite_weight(rankings: list[list[Hit]], weight: float) -> None:
    with pytest.raises(InvalidStage):
        hybrid(rankings, text_weight=weight)


def test_weighted_scales_each_ranking_to_its_own_range() -> None:
    fused = weighted([ranking(a=0.9, b=0.8, c=0.7), ranking("text", c=20.0, b=15.0, d=10.0)])
    assert names(fused) == "abcd"
    assert [hit.score for hit in fused] == pytest.approx([0.8, 0.8 * 0.5 + 0.2 * 0.5, 0.2, 0.0])


def test_a_constant_ranking_counts_as_one_and_weights_as_shares() -> None:
    assert [hit.score for hit in weighted([ranking(a=0.4), []])] == pytest.approx([0.8])
    fused = weighted([ranking(a=0.4, b=0.4), ranking("text", b=2.0)], weights=(3, 1))
    assert [(hit.chunk.chunk_id, hit.score) for hit in fused] == [("b", 1.0), ("a", 0.75)]


@pytest.mark.parametrize("fuse", [reciprocal_rank, weighted])
def test_text_hits_that_share_no_term_count_nothing(fuse: object) -> None:
    fused = fuse([ranking(a=0.9, b=0.1), ranking("text", b=0.0, z=0.0)])  # type: ignore[operator]
    alone = fuse([ranking(a=0.9, b=0.1), []])  # type: ignore[operator]
    assert [(h.chunk.chunk_id, h.score) for h in fused] == [(h.chunk.chunk_id, h.score) for h in alone]


def test_a_cosine_of_zero_is_a_score_like_any_other() -> None:
    assert names(reciprocal_rank([ranking(a=0.0)])) == "a"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("fuse", [reciprocal_rank, weighted, concatenate])
def test_a_score_that_is_no_finite_number_never_comes_first(fuse: object, bad: float) -> None:
    options = {"weights": (1,)} if fuse is weighted else {}
    fused = fuse([ranking(x=bad, a=0.9, b=0.1)], **options)  # type: ignore[operator]
    assert names(fused) == "abx"
    assert fuse is concatenate or all(math.isfinite(hit.score) for hit in fused)


def test_huge_scores_are_scaled_without_overflow() -> None:
    fused = weighted([ranking(a=1.7e308, b=0.0, c=-1.7e308)], weights=[1])
    assert [hit.score for hit in fused] == pytest.approx([1.0, 0.5, 0.0])


def test_a_chunk_twice_in_one_ranking_counts_once() -> None:
    assert [hit.score for hit in reciprocal_rank([plain("aa")])] == [1 / 61]


def test_a_fused_hit_keeps_every_field() -> None:
    full = Hit(
        chunk=Chunk(text="a", document_id="d", index=0, start=0, end=1),
        uri="u",
        title="t",
        base_id="b",
        scores=(Score(stage="vector", scale="cosine", value=0.5, rank=1),),
    )
    (fused,) = reciprocal_rank([[full]])
    for field in fields(Hit):
        value = getattr(full, field.name)
        assert value != field.default, f"give {field.name} a value of its own here"
        assert getattr(fused, field.name) == value or field.name == "scores"


def test_nothing_fuses_to_nothing() -> None:
    assert reciprocal_rank([]) == reciprocal_rank([[], []]) == weighted([[], []]) == concatenate([]) == []


def test_a59_a60_w03_concatenation_keeps_the_better_of_two_and_puts_unscored_last() -> None:
    first, second = ranking(a=0.2, b=0.5), ranking(a=0.9, c=0.5)
    fused = concatenate([first, [*second, hit("d")]])
    assert names(fused) == "abcd"
    assert [h.score for h in fused] == [0.9, 0.5, 0.5, 0.0]
    assert [s.value for s in fused[0].scores] == [0.2, 0.9, 0.9]
    assert names(concatenate([second, first]))[0] == "a"
    assert concatenate([second, first])[0].score == 0.9


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: reciprocal_rank([[]], k=-1), "-1"),
        (lambda: reciprocal_rank([[]], k=math.nan), "nan"),
        (lambda: reciprocal_rank([[]], weights=[1, 2]), "2 weights"),
        (lambda: reciprocal_rank([[]], weights=[-2]), "-2"),
        (lambda: weighted([[]]), "2 weights"),
        (lambda: weighted([[], []], weights=(math.inf, 1)), "inf"),
        (lambda: weighted([[], []], weights=(0, 0)), "every weight"),
    ],
)
def test_parameters_that_cannot_work_are_named(call: object, word: str) -> None:
    with pytest.raises(InvalidStage, match=word):
        call()  # type: ignore[operator]


RANKINGS = st.lists(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.one_of(st.none(), st.floats())), max_size=8).map(
        lambda pairs: [hit(name, value) for name, value in pairs]
    ),
    max_size=4,
)


@settings(deadline=None, max_examples=300)
@given(RANKINGS)
def test_fusion_loses_and_invents_no_chunk_and_ranks_without_gaps(rankings: list[list[Hit]]) -> None:
    present = {hit.chunk.chunk_id for ranked in rankings for hit in ranked}
    for fused in (reciprocal_rank(rankings), weighted(rankings, [1.0] * len(rankings)) if rankings else []):
        assert sorted(names(fused)) == sorted(present)
        assert [hit.scores[-1].rank for hit in fused] == list(range(1, len(fused) + 1))
        values = [hit.score for hit in fused]
        assert values == sorted(values, reverse=True)
        assert all(0 <= value <= 1 for value in values)
    assert sorted(names(concatenate(rankings))) == sorted(present)


TWO = st.tuples(RANKINGS.map(lambda found: found[:1]), RANKINGS.map(lambda found: found[:1]))


@settings(deadline=None)
@given(TWO, st.floats(0, 100))
def test_hybrid_loses_and_invents_no_chunk_and_stays_at_most_1_for_cosines(
    two: tuple[list[list[Hit]], list[list[Hit]]], text_weight: float
) -> None:
    """Row C28."""
    rankings = [[hit for ranked in side for hit in ranked] for side in two]
    present = {hit.chunk.chunk_id for ranked in rankings for hit in ranked}
    fused = hybrid(rankings, text_weight=text_weight)
    assert sorted(names(fused)) == sorted(present)
    values = [hit.score for hit in fused]
    assert all(map(math.isfinite, values))
    assert values == sorted(values, reverse=True)
    if all(abs(hit.score) <= 1 for hit in rankings[0] if math.isfinite(hit.score)):
        assert all(value <= 1 for value in values)


def test_a62_two_stages_fuse_each_question_first_then_the_questions() -> None:
    per_query = [[plain("ab"), plain("cd")], [plain("ef"), plain("gh")]]
    assert names(two_stage(per_query)) == "aecgbfdh"
    assert names(two_stage(per_query, query_weights=[1, 2])) == "egfhacbd"
    assert names(two_stage([[plain("ab"), plain("ba")]], weights=[1, 2])) == "ba"
    assert two_stage([]) == two_stage([[], [[]]]) == []
    with pytest.raises(InvalidStage):
        two_stage(per_query, query_weights=[1])


LISTS = st.lists(st.lists(st.lists(st.sampled_from("abcdef"), unique=True), max_size=3), max_size=3)


@given(LISTS, st.randoms())
@settings(deadline=None)
def test_w26_two_stages_lose_and_double_no_chunk_whatever_the_order(
    letters: list[list[list[str]]], random: Random
) -> None:
    per_query = [[plain("".join(ranking)) for ranking in rankings] for rankings in letters]
    fused = two_stage(per_query)
    assert sorted(names(fused)) == sorted(
        {c for rankings in letters for ranking in rankings for c in ranking}
    )
    assert [hit.scores[-1].rank for hit in fused] == list(range(1, len(fused) + 1))
    assert [hit.score for hit in fused] == sorted((hit.score for hit in fused), reverse=True)
    random.shuffle(per_query)
    shuffled = {hit.chunk.chunk_id: hit.score for hit in two_stage(per_query)}
    assert shuffled == {hit.chunk.chunk_id: hit.score for hit in fused}
