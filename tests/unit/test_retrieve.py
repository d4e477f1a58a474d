"""Retrievers: per-question parameters, time budgets, candidates, many side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import anyio
import pytest

from ragstone import (
    Chunk,
    CitedContext,
    Document,
    ExtractiveGenerator,
    Hit,
    MemoryStore,
    Query,
    QueryPipeline,
    Scope,
    StoreRetriever,
)
from ragstone.errors import InvalidFilter, InvalidQuery, InvalidStage, ProviderUnavailable, StoreUnavailable
from ragstone.filters import parse
from ragstone.fuse import concatenate
from ragstone.retrieve.compose import first_effective, within
from ragstone.testing import FakeEmbedder
from ragstone.testing.chat import FakeChatModel
from ragstone.transform import Compress
from ragstone.types import Message, Score

pytestmark = pytest.mark.anyio
WAIT = 10.0


def hit(name: str, value: float = 1.0) -> Hit:
    chunk = Chunk(text=name, document_id="d", index=0, start=0, end=len(name), chunk_id=name)
    return Hit(
        chunk=chunk,
        uri="u",
        title="t",
        scores=(Score(stage="retrieve", scale="cosine", value=value, rank=1),),
    )


def names(hits: Sequence[Hit]) -> str:
    return "".join(hit.chunk.chunk_id for hit in hits)


class Finds:
    """A retriever that finds the same, and keeps what it was asked."""

    def __init__(self, letters: str) -> None:
        self.letters = letters
        self.asked: list[Query] = []

    async def __call__(self, query: Query) -> list[Hit]:
        self.asked.append(query)
        return [hit(letter) for letter in self.letters]


class Blocks:
    """A retriever that never ends by itself; counts those under way."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self.started = anyio.Event()

    async def __call__(self, query: Query) -> list[Hit]:
        self.running += 1
        self.most = max(self.most, self.running)
        self.started.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.running -= 1
        raise AssertionError


async def down(query: Query) -> list[Hit]:
    raise StoreUnavailable("query.no_retriever")


async def crashes(query: Query) -> list[Hit]:
    raise RuntimeError("someone else's code")


def pipeline(*retrievers: object, **more: object) -> QueryPipeline:
    parts = {"retrievers": retrievers, "augment": CitedContext(), "generate": ExtractiveGenerator()}
    return QueryPipeline(**parts | more)  # type: ignore[arg-type]


async def stored() -> StoreRetriever:
    embedder, store = FakeEmbedder(), MemoryStore()
    for owner in ("ann", "bob"):
        text = f"The pump of {owner} runs at night."
        document = Document(text=text, uri=f"file:///{owner}", base_id=owner)
        chunk = Chunk(
            text=text,
            document_id=document.document_id,
            index=0,
            start=0,
            end=len(text),
            metadata={"owner": owner},
        )
        await store.replace(document, [chunk], await embedder.embed_documents([text]))
    return StoreRetriever(store=store, embedder=embedder)


# --- the store retriever -------------------------------------------------------------


async def test_a44_a48_parameters_may_be_functions_of_the_question() -> None:
    retriever = replace(
        await stored(),
        top_k=lambda query: 2 if len(query.text) > 8 else 1,
        min_score=lambda query: 1.0 if "strict" in query.text else None,
        scope=lambda query: Scope(filter=parse(f"owner == '{query.context.get('owner', 'ann')}'")),
    )
    assert {hit.base_id for hit in await retriever(Query("the pump at night"))} == {"ann"}
    assert {hit.base_id for hit in await retriever(Query("pump", context={"owner": "bob"}))} == {"bob"}
    wide = replace(retriever, scope=Scope())
    assert len(await wide(Query("pump"))) == 1
    assert len(await wide(Query("the pump at night"))) == 2
    assert len(await replace(wide, mode="vector")(Query("strict pump"))) == 0


async def test_w05_a_request_narrows_a_computed_scope_and_never_widens_it() -> None:
    retriever = replace(
        await stored(), scope=lambda query: Scope(bases=("ann",), filter=parse("owner == 'ann'"))
    )
    for scope in (
        Scope(),
        Scope(bases=("ann", "bob")),
        Scope(filter=parse("owner == 'bob'")),
        Scope(bases=()),
    ):
        found = await retriever(Query("pump", scope=scope))
        assert {hit.base_id for hit in found} <= {"ann"}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"top_k": 0}, "top-k is 0"),
        ({"top_k": True}, "top-k is True"),
        ({"min_score": 2.0}, "min-score is 2"),
        ({"min_score": -0.1}, "min-score is -0.1"),
        ({"min_score": float("nan")}, "min-score is nan"),
        ({"min_score": float("inf"), "mode": "text"}, "min-score is inf"),
        ({"min_score": -1.5, "mode": "vector"}, "min-score is -1.5"),
    ],
)
async def test_a44_numbers_out_of_range_are_refused_at_once_or_when_given(
    wrong: dict[str, object], named: str
) -> None:
    retriever = await stored()
    with pytest.raises(InvalidQuery, match=named):
        replace(retriever, **wrong)  # type: ignore[arg-type]
    later = {
        name: (lambda query, value=value: value) if name != "mode" else value for name, value in wrong.items()
    }
    with pytest.raises(InvalidQuery, match=named):
        await replace(retriever, **later)(Query("pump"))  # type: ignore[arg-type]


# --- wrappers ------------------------------------------------------------------------


async def test_a_late_retriever_is_cancelled() -> None:
    blocks = Blocks()
    with anyio.fail_after(WAIT), pytest.raises(ProviderUnavailable, match=r"0\.01"):
        await within(blocks, 0.01)(Query("a"))
    assert blocks.running == 0
    assert names(await within(Finds("ab"), WAIT)(Query("a"))) == "ab"
    for seconds in (0, -1, float("nan"), float("inf")):
        with pytest.raises(InvalidStage):
            within(blocks, seconds)


async def test_a42_a55_w14_the_first_candidate_effective_for_the_original_wins() -> None:
    found = {"rewritten": "xy", "other": "pz", "original": "o"}

    async def retrieve(query: Query) -> list[Hit]:
        return [hit(letter) for letter in found[query.text]]

    async def candidates(query: Query) -> list[Query]:
        return [replace(query, text="rewritten"), replace(query, text="other"), query]

    judged: list[str] = []

    def holds_p(query: Query, hits: Sequence[Hit]) -> bool:
        judged.append(query.text)
        return any(hit.chunk.text == "p" for hit in hits)

    original = Query("original")
    assert names(await first_effective(retrieve, candidates, effective=holds_p)(original)) == "pz"
    assert judged == ["original", "original"]
    assert names(await first_effective(retrieve, candidates)(original)) == "xy"
    assert await first_effective(retrieve, candidates, effective=lambda q, h: False)(original) == []


# --- many side by side ---------------------------------------------------------------


@pytest.mark.parametrize("broken", [down, crashes])
async def test_w22_one_failing_retriever_gives_partial_results_and_a_mark(broken: object) -> None:
    result = await pipeline(Finds("ab"), broken).search(Query("a"))
    assert (names(result.hits), result.degraded) == ("ab", ("retriever_failed",))
    (step,) = [step for step in result.trace if step.stage == "retrieve"]
    assert step.detail["hits"] == [2, 0]
    assert list(step.detail["failed"]) == [1]  # type: ignore[call-overload]


async def test_w22_a_late_retriever_gives_partial_results_and_a_mark() -> None:
    blocks = Blocks()
    with anyio.fail_after(WAIT):
        result = await pipeline(blocks, Finds("ab"), retriever_seconds=0.05).search(Query("a"))
    assert (names(result.hits), result.degraded, blocks.running) == ("ab", ("retriever_failed",), 0)


async def test_w22_all_failing_raises_the_first_failure() -> None:
    with pytest.raises(StoreUnavailable):
        await pipeline(down, crashes).search(Query("a"))
    with pytest.raises(RuntimeError, match="someone"):
        await pipeline(crashes).search(Query("a"))


async def test_what_the_caller_must_mend_is_raised_and_not_hidden() -> None:
    async def misread(query: Query) -> list[Hit]:
        raise InvalidFilter("filter.blank")

    with anyio.fail_after(WAIT), pytest.raises(InvalidFilter):
        await pipeline(Blocks(), misread).search(Query("a"))


async def test_w22_searches_run_side_by_side_within_the_limit_and_cancelling_leaves_nothing() -> None:
    blocks = Blocks()

    async def many(query: Query) -> list[Query]:
        return [replace(query, text=f"a{n}") for n in range(6)]

    asked = pipeline(blocks, blocks, expand=many, concurrency=5)
    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asked.search, Query("a"))
            while blocks.running < 5:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert (blocks.running, blocks.most) == (0, 5)


async def test_a57_every_query_goes_to_every_retriever() -> None:
    """Row A43: whatever is called with a query and gives hits is a retriever, an object or a function."""
    one, other = Finds("a"), Finds("b")

    async def both(query: Query) -> list[Query]:
        return [query, replace(query, text="other way")]

    await pipeline(one, other, expand=both).search(Query("way"))
    assert (
        [query.text for query in one.asked] == [query.text for query in other.asked] == ["way", "other way"]
    )


async def test_w12_w34_c35_the_question_as_asked_is_searched_too() -> None:
    finds = Finds("a")

    async def reword(query: Query) -> Query:
        return replace(query, text="better")

    async def variants(query: Query) -> list[Query]:
        return [query, replace(query, text="BETTER?"), replace(query, text="else")]

    await pipeline(finds, transform=[reword]).search(Query("asked"))
    assert [query.text for query in finds.asked] == ["better", "asked"]
    finds.asked.clear()
    await pipeline(finds, transform=[reword], expand=variants).search(Query("asked"))
    assert [query.text for query in finds.asked] == ["better", "else", "asked"]


async def test_d10_what_a_stage_narrows_holds_for_the_question_as_asked_too() -> None:
    finds = Finds("a")
    narrow = Scope(bases=("ann",))

    async def only_ann(query: Query) -> Query:
        return replace(query, text="better", scope=narrow)

    async def parts(query: Query) -> list[Query]:
        return [query, replace(query, scope=Scope(filter=parse("year == 1")))]

    await pipeline(finds, transform=[only_ann], expand=parts).search(Query("asked"))
    assert [(query.text, query.scope.bases) for query in finds.asked] == [
        ("better", ("ann",)),
        ("better", ("ann",)),
        ("asked", ("ann",)),
    ]
    assert finds.asked[1].scope.filter == parse("year == 1")


async def test_a61_selectors_judge_by_the_question_and_of_a_follow_up_by_its_standalone_form() -> None:
    seen: list[str] = []

    async def look(query: Query, hits: list[Hit]) -> list[Hit]:
        seen.append(query.text)
        return hits

    async def reword(query: Query) -> Query:
        return replace(query, text="hall 3 pump upkeep")

    history = (Message(role="user", content="Which pump is in hall 3?"),)
    standalone = Compress(FakeChatModel("How is the P-200 serviced?"))
    await pipeline(Finds("a"), transform=[reword], rerank=look, select=[look]).search(Query("asked"))
    await pipeline(Finds("a"), transform=[standalone, reword], select=[look]).search(
        Query("And its service?", history=history)
    )
    assert seen == ["asked", "asked", "How is the P-200 serviced?"]


async def test_a_follow_up_s_own_finds_stand_behind_those_of_its_standalone_form() -> None:
    async def find(query: Query) -> list[Hit]:
        return [hit(letter) for letter in ("xay" if query.text == "and that?" else "abc")]

    history = (Message(role="user", content="Which pump is it? The P-200?"),)
    result = await pipeline(find, transform=[Compress(FakeChatModel("P-200 price"))]).search(
        Query("and that?", history=history)
    )
    assert names(result.hits) == "abcxy"


async def test_a62_rankings_are_fused_per_question_then_over_the_questions() -> None:
    lists = {"q1": ["ab", "cd"], "q2": ["ef", "gh"]}

    def retriever(which: int) -> object:
        async def find(query: Query) -> list[Hit]:
            return [hit(letter) for letter in lists[query.text][which]]

        return find

    async def both(query: Query) -> list[Query]:
        return [query, replace(query, text="q2")]

    result = await pipeline(retriever(0), retriever(1), expand=both).search(Query("q1"))
    assert names(result.hits) == "aecgbfdh"
    joined = await pipeline(
        retriever(0), retriever(1), expand=both, fuse=concatenate, fuse_queries=concatenate
    ).search(Query("q1"))
    assert {hit.scores[-1].scale for hit in joined.hits} == {"cosine"}


async def test_a50_a_route_is_asked_for_each_query_and_may_choose_nothing() -> None:
    one, other = Finds("a"), Finds("b")

    async def route(query: Query) -> list[object]:
        return {"q1": [one], "q2": [one, other]}.get(query.text, [])

    async def both(query: Query) -> list[Query]:
        return [query, replace(query, text="q2"), replace(query, text="q3")]

    asked = pipeline(route=route, expand=both)
    result = await asked.search(Query("q1"))
    assert names(result.hits) == "ab"
    assert next(s for s in result.trace if s.stage == "route").detail["retrievers"] == [1, 2, 0]
    answer = await pipeline(route=route).ask(Query("nothing"))
    assert (answer.answered, answer.hits) == (False, ())


def test_limits_that_cannot_work_are_refused() -> None:
    with pytest.raises(InvalidStage, match="concurrency is 0"):
        pipeline(down, concurrency=0)
    with pytest.raises(InvalidStage, match="-1"):
        pipeline(down, retriever_seconds=-1)


async def test_a58_search_alone_asks_no_model() -> None:
    chat = FakeChatModel("never")
    from ragstone import ModelGenerator

    result = await pipeline(Finds("ab"), generate=ModelGenerator(chat)).search(Query("a"))
    assert (names(result.hits), chat.requests) == ("ab", [])
