"""The ready-made pipelines, from question to answer over a store in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from ragstone import Chunk, Document, MemoryStore, Query, Scope, Vectors
from ragstone.errors import InvalidQuery, InvalidStage, ProviderUnavailable
from ragstone.filters import parse
from ragstone.query import QueryPipeline
from ragstone.recipes import MIN_SCORE, TOP_K, ByLength, retrieve_and_rerank, service
from ragstone.testing import FakeEmbedder
from ragstone.testing.chat import FakeChatModel
from ragstone.types import Answer, Message, SearchResult

pytestmark = pytest.mark.anyio

TEXTS = {
    "redis": "Redis 把数据保存在内存中，也能写入磁盘。",
    "index": "建立索引可以加快查询速度。",
    "leave": "员工每年有十天年假。",
    "pump": "The P-200 pump is serviced every six months.",
    "good": "Everything in the hall is in good order.",
    "net": "The console is written for .NET 8.",
}
BROKEN = ProviderUnavailable("chat.connection", url="x")


class Asked(FakeEmbedder):
    """Keeps the questions that were searched with."""

    def __init__(self) -> None:
        super().__init__(dimension=1024)
        self.questions: list[str] = []

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        self.questions += texts
        return await super().embed_queries(texts)


async def filled(embedder: FakeEmbedder, **texts: str) -> MemoryStore:
    store = MemoryStore()
    for name, text in texts.items():
        document = Document(text=text, uri=f"file:///{name}", title="", metadata={"name": name})
        chunk = Chunk(
            text=text,
            document_id=document.document_id,
            index=0,
            start=0,
            end=len(text),
            chunk_id=name,
            metadata={"name": name},
        )
        await store.replace(document, [chunk], await embedder.embed_documents([text]))
    return store


@pytest.fixture
def embedder() -> Asked:
    return Asked()


@pytest.fixture
async def store(embedder: Asked) -> MemoryStore:
    return await filled(embedder, **TEXTS)


def names(found: SearchResult | Answer) -> list[str]:
    return [hit.chunk.chunk_id for hit in found.hits]


# --- parameters by length ------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "top_k"),
    [("年假", 20), ("a b c d", 20), ("年假有几天呢", 12), ("a b c d e f g h i j k l", 12), ("a" * 13, 8)],
)
def test_a54_top_k_follows_the_length_without_white_space(question: str, top_k: int) -> None:
    assert TOP_K(Query(question)) == top_k


def test_a54_the_lengths_are_parameters_and_must_ascend() -> None:
    assert ByLength(1, 2, 3, short_length=2, medium_length=3)(Query("abc")) == 2
    for short, medium in ((0, 12), (4, 4), (12, 4)):
        with pytest.raises(InvalidStage, match=str(short)):
            ByLength(1, 2, 3, short_length=short, medium_length=medium)


@pytest.mark.parametrize("in_turn", [False, True])
async def test_a54_parameters_are_those_of_the_question_as_asked_for_every_candidate(
    store: MemoryStore, embedder: Asked, in_turn: bool
) -> None:
    seen: list[tuple[str, int]] = []

    def top_k(query: Query) -> int:
        seen.append((query.text, TOP_K(query)))
        return TOP_K(query)

    chat_said = "数据库里建立索引有什么好处，为什么会更快？"
    await service(store, embedder, FakeChatModel(chat_said), top_k=top_k, in_turn=in_turn).search(
        Query("索引")
    )
    assert {size for _, size in seen} == {20}
    assert {text for text, _ in seen} == {chat_said, "索引"}


async def test_a54_w32_the_least_score_is_a_parameter_and_measured_for_known_models_only(
    store: MemoryStore, embedder: Asked
) -> None:
    question = Query("When is the P-200 pump serviced?")
    assert names(await service(store, embedder).search(question))[0] == "pump"
    strict = service(store, embedder, min_score=ByLength(0.0, 0.0, 1.0))
    answer = await strict.ask(question)
    assert (answer.answered, names(answer)) == (False, [])
    assert embedder.identity.partition("/")[0] not in MIN_SCORE
    for least in MIN_SCORE.values():
        assert all(0 < value < 1 for value in (least.short, least.medium, least.long))


# --- candidates ----------------------------------------------------------------------


@pytest.mark.parametrize("in_turn", [False, True])
async def test_a41_a42_the_reworded_question_comes_first_and_the_original_after_it(
    store: MemoryStore, embedder: Asked, in_turn: bool
) -> None:
    chat = FakeChatModel("service interval of bicycles", "Every six months [1].")
    pipeline = service(store, embedder, chat, in_turn=in_turn)
    result = await pipeline.search(Query("When is the P-200 pump serviced?"))
    assert embedder.questions[0] == "service interval of bicycles"
    assert set(embedder.questions[1:]) == (set() if in_turn else {"When is the P-200 pump serviced?"})
    assert in_turn or "pump" in names(result)


@pytest.mark.parametrize("answer", ["", "<think>hm", BROKEN, "When is the P-200  pump serviced"])
async def test_a41_a_failed_or_equal_rewording_leaves_the_question_alone(
    store: MemoryStore, embedder: Asked, answer: str | Exception
) -> None:
    question = "When is the P-200 pump serviced?"
    result = await service(store, embedder, FakeChatModel(answer)).search(Query(question))
    assert embedder.questions == [question]
    assert names(result)[0] == "pump"
    failed = answer in ("", "<think>hm", BROKEN)
    assert result.degraded == (("rewrite_failed",) if failed else ())


async def test_a41_c35_rewriting_can_be_switched_off(store: MemoryStore, embedder: Asked) -> None:
    chat = FakeChatModel("never")
    await service(store, embedder, chat, rewrite=False).search(Query("When is the pump serviced?"))
    assert (chat.requests, len(embedder.questions)) == ([], 1)


@pytest.mark.parametrize("in_turn", [False, True])
async def test_w12_c34_c35_a_follow_up_is_reworded_with_its_history_and_never_without(
    store: MemoryStore, embedder: Asked, in_turn: bool
) -> None:
    history = (Message(role="user", content="Redis 是什么？"), Message(role="assistant", content="数据库。"))
    chat = FakeChatModel("Redis 怎么把数据写入磁盘？")
    pipeline = service(store, embedder, chat, in_turn=in_turn)
    result = await pipeline.search(Query("它怎么写入？", history=history))
    assert len(chat.requests) == 1
    assert "Redis 是什么？" in chat.requests[0][-1].content
    assert set(embedder.questions) == {"Redis 怎么把数据写入磁盘？", "它怎么写入？"}
    assert names(result)[0] == "redis"


async def test_a55_w14_the_first_effective_candidate_wins_judged_by_the_question_as_asked(
    embedder: Asked,
) -> None:
    store = await filled(embedder, **TEXTS)
    lost = service(
        store, embedder, FakeChatModel("索引：员工每年有几天休息？"), in_turn=True, min_score=_least(0.2)
    )
    result = await lost.search(Query("索引"))
    # What the rewording finds does not hold the term: the question as asked is tried.
    assert embedder.questions == ["索引：员工每年有几天休息？", "索引"]
    assert names(result)[0] == "index"
    embedder.questions.clear()
    nothing = await service(store, embedder, FakeChatModel("Kafka 消息队列"), in_turn=True).ask(
        Query("Kafka")
    )
    assert embedder.questions == ["Kafka 消息队列", "Kafka"]
    assert (nothing.answered, nothing.hits) == (False, ())


def _least(value: float) -> Callable[[Query], float]:
    return lambda query: value


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("go", None),
        ("good", "good"),
        ("C++", None),
        (".NET", "net"),
        ("年假", "leave"),
        ("什么是年假？", "leave"),
        ("产假", None),
        ("年假有几天？", "leave"),
    ],
)
async def test_a56_w13_short_terms_are_confirmed_and_without_one_the_model_is_not_asked(
    store: MemoryStore, embedder: Asked, question: str, found: str | None, in_turn: bool
) -> None:
    chat = FakeChatModel(f"{question} 的说明和介绍", "有 [1]。")
    answer = await service(store, embedder, chat, in_turn=in_turn).ask(Query(question))
    assert answer.answered is (found is not None)
    assert found is None or found in names(answer)
    assert len(chat.requests) == (1 if found is None else 2)


async def test_w14_a_good_rewording_is_not_refused_for_its_words(store: MemoryStore, embedder: Asked) -> None:
    """The term of the question stands in what the rewording found: one decision, on the question."""
    chat = FakeChatModel("建立索引能加快查询速度吗", "能 [1]。")
    answer = await service(store, embedder, chat).ask(Query("索引"))
    assert (answer.answered, answer.hits[0].chunk.chunk_id) == (True, "index")


async def test_d10_the_service_searches_within_its_own_scope_and_the_question_s(
    store: MemoryStore, embedder: Asked
) -> None:
    own = service(store, embedder, scope=Scope(filter=parse("name != 'pump'")))
    for scope in (Scope(), Scope(filter=parse("name == 'pump'")), Scope(bases=())):
        assert "pump" not in names(await own.search(Query("When is the P-200 pump serviced?", scope=scope)))


async def test_without_a_model_the_answer_is_quoted_and_a_failing_one_is_replaced(
    store: MemoryStore, embedder: Asked
) -> None:
    for chat, degraded in ((None, ()), (FakeChatModel(BROKEN), ("rewrite_failed", "chat_failed"))):
        answer = await service(store, embedder, chat).ask(Query("When is the P-200 pump serviced?"))
        assert (answer.mode, answer.degraded) == ("extractive", degraded)
        assert "every six months" in answer.text


async def test_w30_passages_stay_within_the_budget(embedder: Asked) -> None:
    store = await filled(embedder, **{f"p{n}": f"pump number {n} " + "word " * 100 for n in range(8)})
    chat = FakeChatModel("Yes [1].")
    answer = await service(store, embedder, chat, rewrite=False, context_tokens=450).ask(
        Query("Which number has the pump?")
    )
    assert 0 < len(answer.hits) < len(answer.retrieved)


# --- retrieve and rerank -------------------------------------------------------------


class Prefers:
    """A reranker that scores by a word; keeps what it was given."""

    identity = "words"

    def __init__(self, scores: dict[str, float], *, fails: Exception | None = None) -> None:
        self._scores, self._fails = scores, fails
        self.sizes: list[int] = []
        self.closed = False

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        self.sizes.append(len(texts))
        if self._fails is not None:
            raise self._fails
        return [next((value for word, value in self._scores.items() if word in text), 0.0) for text in texts]

    async def aclose(self) -> None:
        self.closed = True


async def funnel(reranker: Prefers, chat: FakeChatModel | None = None, **more: object) -> QueryPipeline:
    embedder = FakeEmbedder()
    texts = {f"p{n:02}": f"The pump {n:02}x is in hall {n:02}." for n in range(40)}
    return retrieve_and_rerank(await filled(embedder, **texts), embedder, reranker, chat, **more)  # type: ignore[arg-type]


async def test_a64_a65_a67_twenty_candidates_become_five_and_both_lists_are_reported() -> None:
    reranker = Prefers({f"{n:02}x": n / 40 for n in range(40)})
    answer = await (await funnel(reranker, FakeChatModel("In hall 3 [1]."))).ask(Query("Where is the pump?"))
    assert reranker.sizes == [20]
    assert (len(answer.retrieved), len(answer.hits)) == (20, 5)
    assert set(names(answer)) < {hit.chunk.chunk_id for hit in answer.retrieved}
    scores = [hit.on("rerank:words") for hit in answer.hits]
    assert scores == sorted(scores, reverse=True)
    assert answer.citations[0].chunk_id == names(answer)[0]


async def test_a58_the_search_alone_reports_the_same_and_asks_no_model() -> None:
    chat = FakeChatModel("never")
    result = await (await funnel(Prefers({"pump": 0.5}), chat)).search(Query("Where is the pump?"))
    assert (len(result.retrieved), len(result.hits), chat.requests) == (20, 5, [])


async def test_a66_w24_scores_below_the_least_are_dropped_and_nothing_left_is_a_refusal() -> None:
    chat = FakeChatModel("never")
    pipeline = await funnel(Prefers({"pump": 0.09}), chat)
    answer = await pipeline.ask(Query("Where is the pump?"))
    assert (answer.answered, answer.hits, len(answer.retrieved), chat.requests) == (False, (), 20, [])
    lower = await funnel(Prefers({"pump": 0.09}), FakeChatModel("Here [1]."), min_score=0.05)
    assert len((await lower.ask(Query("Where is the pump?"))).hits) == 5


@pytest.mark.parametrize("fails", [BROKEN, TimeoutError(), ProviderUnavailable("chat.connection", url="y")])
async def test_a66_w24_a_failing_reranker_leaves_the_order_of_the_search_and_is_marked(
    fails: Exception,
) -> None:
    pipeline = await funnel(Prefers({}, fails=fails), FakeChatModel("Here [1]."))
    answer = await pipeline.ask(Query("Where is the pump?"))
    assert answer.degraded == ("reranker_failed",)
    assert answer.hits == answer.retrieved[:5]


async def test_a66_scores_that_are_no_numbers_leave_the_order_and_nothing_found_stays_nothing() -> None:
    broken = await (await funnel(Prefers({"pump": math.nan}))).search(Query("Where is the pump?"))
    assert broken.degraded == ("reranker_failed",)
    reranker = Prefers({"pump": 1.0})
    empty = await (await funnel(reranker)).search(Query("pump", scope=Scope(bases=())))
    assert (empty.hits, reranker.sizes) == ((), [])


async def test_a65_numbers_are_parameters_and_a_funnel_cannot_widen() -> None:
    reranker = Prefers({"pump": 1.0})
    pipeline = await funnel(reranker, candidates=7, top_n=2, min_score=None)
    result = await pipeline.search(Query("Where is the pump?"))
    assert (reranker.sizes, len(result.hits)) == ([7], 2)
    with pytest.raises(InvalidStage):
        await funnel(reranker, candidates=4, top_n=5)
    with pytest.raises(InvalidQuery, match="0"):
        await funnel(reranker, top_n=0)


async def test_a65_the_wording_is_replaced_by_an_augmenter_and_any_stage_by_replace() -> None:
    from ragstone import CitedContext

    chat = FakeChatModel("Here [1].")
    pipeline = await funnel(
        Prefers({"pump": 1.0}), chat, augment=CitedContext(template="{question}<<{passages}>>")
    )
    await replace(pipeline, select=()).ask(Query("Where is the pump?"))
    assert chat.requests[0][-1].content.startswith("Where is the pump?<<")
