"""The query path: order of stages, answers and refusals, failures, streams that are left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from ragstone import (
    Chunk,
    CitedContext,
    Document,
    ExtractiveGenerator,
    Hit,
    MemoryStore,
    ModelGenerator,
    Prompt,
    Query,
    QueryPipeline,
    RecursiveSplitter,
    Scope,
    StoreRetriever,
)
from ragstone.errors import InvalidStage, ProviderRejected, ProviderUnavailable
from ragstone.filters import parse
from ragstone.testing import FakeEmbedder
from ragstone.testing.chat import FakeChatModel
from ragstone.types import Delta, Done, Message, Sources, StageDone, Vectors

pytestmark = pytest.mark.anyio

FERRY = "The ferry leaves Halm at 22:15. Dogs travel free of charge. A bicycle costs 9 euros."
GARDEN = "Tomatoes grow in bed A. The timer opens the valves at 5:30 in the morning."


async def filled(embedder: FakeEmbedder, **texts: str) -> MemoryStore:
    store = MemoryStore()
    for name, text in texts.items():
        document = Document(
            text=text, uri=f"file:///{name}", title=name, base_id=name, metadata={"name": name}
        )
        chunks = RecursiveSplitter(max_size=40, overlap=5, tokenizer=embedder.tokenizer)(document)
        await store.replace(
            document, chunks, await embedder.embed_documents([c.embedding_text for c in chunks])
        )
    return store


@pytest.fixture
def embedder() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture
async def retriever(embedder: FakeEmbedder) -> StoreRetriever:
    store = await filled(embedder, ferry=FERRY, garden=GARDEN)
    return StoreRetriever(store=store, embedder=embedder, top_k=5)


def pipeline(retriever: StoreRetriever, chat: FakeChatModel | None = None, **more: object) -> QueryPipeline:
    generate = ExtractiveGenerator() if chat is None else ModelGenerator(chat)
    return QueryPipeline(
        **{"retrievers": [retriever], "augment": CitedContext(), "generate": generate} | more  # type: ignore[arg-type]
    )


def unavailable() -> ProviderUnavailable:
    return ProviderUnavailable("kb.document_not_found", reference="chat")


async def test_a_quoted_answer_cites_the_exact_place(retriever: StoreRetriever) -> None:
    answer = await pipeline(retriever).ask(Query("When does the ferry leave Halm?"))
    assert (answer.mode, answer.answered, answer.degraded) == ("extractive", True, ())
    assert answer.text == "The ferry leaves Halm at 22:15. [1]"
    (citation,) = answer.citations
    assert FERRY[citation.start : citation.end] == citation.quote == "The ferry leaves Halm at 22:15."
    assert citation.chunk_id == answer.hits[0].chunk.chunk_id


async def test_a_written_answer_is_cited_and_its_unknown_markers_go(retriever: StoreRetriever) -> None:
    chat = FakeChatModel(["It leaves at ", "22:15 [1]", "[9]."])
    answer = await pipeline(retriever, chat).ask(Query("When does the ferry leave Halm?"))
    assert (answer.mode, answer.text) == ("model", "It leaves at 22:15 [1].")
    assert [citation.quote for citation in answer.citations] == ["The ferry leaves Halm at 22:15."]
    assert answer.audit["removed_markers"] == [9]
    assert answer.usage.output_tokens > 0


async def test_events_come_in_order_and_the_deltas_are_the_answer(retriever: StoreRetriever) -> None:
    chat = FakeChatModel(["At ", "22:15", " [1]."])
    events = [event async for event in pipeline(retriever, chat).stream(Query("When does the ferry leave?"))]
    kinds = [type(event).__name__ for event in events]
    assert kinds == sorted(kinds, key=["StageDone", "Sources", "Delta", "Done"].index)
    assert isinstance(events[0], StageDone)
    assert events[0].step.stage == "retrieve"
    done = events[-1]
    assert isinstance(done, Done)
    assert "".join(event.text for event in events if isinstance(event, Delta)) == done.answer.text
    sources = next(event for event in events if isinstance(event, Sources))
    assert sources.hits == done.answer.hits


async def test_the_trace_says_what_every_stage_did(retriever: StoreRetriever) -> None:
    """C48"""

    async def first(query: Query, hits: list[Hit]) -> list[Hit]:
        return hits[:1]

    answer = await pipeline(retriever, select=[first]).ask(Query("ferry"))
    steps = {step.stage: step.detail for step in answer.trace}
    assert list(steps) == ["retrieve", "fuse", "select", "augment", "generate", "cite"]
    assert steps["retrieve"]["hits"] == [2]
    assert steps["select"] == {"from": 2, "to": 1}
    assert (len(answer.retrieved), len(answer.hits)) == (2, 1)


@pytest.mark.parametrize("question", ["What is the capital of France?", "法国的首都在哪里？"])
async def test_a77_no_answer_is_a_refusal_in_the_language_of_the_question(
    retriever: StoreRetriever, question: str
) -> None:
    chat = FakeChatModel(["<no-", "answer/>"])
    events = [event async for event in pipeline(retriever, chat).stream(Query(question))]
    done = events[-1]
    assert isinstance(done, Done)
    assert (done.answer.answered, done.answer.citations) == (False, ())
    assert ("文档" in done.answer.text) == ("法国" in question)
    assert [event.text for event in events if isinstance(event, Delta) and event.text] == [done.answer.text]


async def test_a77_nothing_found_is_refused_without_asking_the_model(retriever: StoreRetriever) -> None:
    chat = FakeChatModel("never")
    answer = await pipeline(retriever, chat).ask(Query("ferry", scope=Scope(bases=())))
    assert (answer.answered, chat.requests) == (False, [])


async def test_d9_a_model_that_fails_before_its_first_word_is_replaced_and_it_is_said(
    retriever: StoreRetriever,
) -> None:
    chat = FakeChatModel([unavailable()])
    answer = await pipeline(retriever, chat, fallback=ExtractiveGenerator()).ask(
        Query("When does the ferry leave?")
    )
    assert (answer.mode, answer.answered, answer.degraded) == ("extractive", True, ("chat_failed",))
    assert "22:15" in answer.text


async def test_a80_without_a_fallback_or_after_the_first_word_the_failure_comes_through(
    retriever: StoreRetriever,
) -> None:
    with pytest.raises(ProviderRejected):
        await pipeline(retriever, FakeChatModel([ProviderRejected("core.query_blank")])).ask(Query("ferry"))
    chat = FakeChatModel(["The ferry leaves at 22:15. ", unavailable()])
    events = pipeline(retriever, chat, fallback=ExtractiveGenerator()).stream(Query("When does it leave?"))
    seen: list[str] = []

    async def read() -> None:
        async for event in events:
            if isinstance(event, Delta):
                seen.append(event.text)

    with pytest.raises(ProviderUnavailable):
        await read()
    assert "22:15" in "".join(seen)


async def test_a_stream_that_is_left_closes_the_model_at_once(retriever: StoreRetriever) -> None:
    chat = FakeChatModel(["The ferry leaves Halm at 22:15 in the evening. ", "And then ", "more."])
    stream = pipeline(retriever, chat).stream(Query("When does the ferry leave?"))
    async for event in stream:
        if isinstance(event, Delta):
            break
    assert chat.closed_early == 0
    await stream.aclose()
    assert chat.closed_early == 1


async def test_transformers_change_what_is_searched_not_what_is_asked(retriever: StoreRetriever) -> None:
    async def to_ferry(query: Query) -> Query:
        return replace(query, text="ferry Halm")

    chat = FakeChatModel("At 22:15 [1].")
    await pipeline(retriever, chat, transform=[to_ferry]).ask(Query("When does it leave?"))
    asked = chat.requests[0][-1].content
    assert "When does it leave?" in asked
    assert asked.index("ferry leaves Halm") < asked.index("Tomatoes")


async def test_a34_transformers_run_in_order_each_on_what_the_one_before_made(
    retriever: StoreRetriever,
) -> None:
    seen: list[str] = []

    def adding(word: str) -> object:
        async def add(query: Query) -> Query:
            seen.append(query.text)
            return replace(query, text=f"{query.text} {word}")

        return add

    result = await pipeline(retriever, transform=[adding("Halm"), adding("dogs")]).search(Query("ferry"))
    assert seen == ["ferry", "ferry Halm"]
    assert [step.stage for step in result.trace][:2] == ["transform", "transform"]


async def test_a69_an_augmenter_that_allows_it_has_the_model_asked_without_passages(
    retriever: StoreRetriever,
) -> None:
    chat = FakeChatModel("Good morning to you.")
    asked = pipeline(retriever, chat, augment=CitedContext(allow_empty=True))
    answer = await asked.ask(Query("Good morning!", scope=Scope(bases=())))
    assert (answer.answered, answer.text, answer.citations) == (True, "Good morning to you.", ())
    assert [message.content for message in chat.requests[0]] == ["Good morning!"]
    quoting = pipeline(retriever, augment=CitedContext(allow_empty=True))
    assert not (await quoting.ask(Query("Good morning!", scope=Scope(bases=())))).answered


async def test_expanded_queries_and_several_retrievers_are_fused_by_chunk(retriever: StoreRetriever) -> None:
    async def both(query: Query) -> list[Query]:
        return [query, replace(query, text="tomatoes valves timer")]

    result = await pipeline(retriever, retrievers=[retriever, retriever], expand=both).search(Query("ferry"))
    assert len(result.hits) == len({hit.chunk.chunk_id for hit in result.hits}) == 2
    assert {hit.scores[-1].scale for hit in result.hits} == {"rrf"}
    assert result.trace[1].detail["hits"] == [2, 2, 2, 2]


async def test_a_route_chooses_the_retrievers(retriever: StoreRetriever) -> None:
    async def nothing(query: Query) -> list[Hit]:
        return []

    async def route(query: Query) -> Sequence[object]:
        return [retriever] if "ferry" in query.text else [nothing]

    asked = pipeline(retriever, retrievers=(), route=route)
    assert (await asked.search(Query("ferry"))).hits
    assert (await asked.search(Query("garden"))).hits == ()
    with pytest.raises(InvalidStage):
        pipeline(retriever, retrievers=())


async def test_a_plain_function_is_a_generator(retriever: StoreRetriever) -> None:
    async def parrot(prompt: Prompt) -> AsyncIterator[Delta]:
        yield Delta(text=f"{len(prompt.passages)} passages [1].")

    answer = await pipeline(retriever, generate=parrot).ask(Query("ferry"))
    assert (answer.text, answer.mode) == ("2 passages [1].", "model")


async def test_history_reaches_the_model_without_system_messages(retriever: StoreRetriever) -> None:
    chat = FakeChatModel("At 22:15 [1].")
    history = (Message(role="user", content="Hello"), Message(role="assistant", content="Yes?"))
    await pipeline(retriever, chat).ask(Query("When does the ferry leave?", history=history))
    assert [message.role for message in chat.requests[0]] == ["system", "user", "assistant", "user"]


async def test_an_answer_that_was_cut_off_is_partial_and_says_so(retriever: StoreRetriever) -> None:
    async def cut(prompt: Prompt) -> AsyncIterator[Delta]:
        yield Delta(text="The sky is blue [1], and")
        yield Delta(text="", cut=True)

    answer = await replace(pipeline(retriever), generate=cut).ask(Query("When does the ferry leave?"))
    assert (answer.partial, answer.degraded) == (True, ("answer_cut",))
    assert answer.text == "The sky is blue [1], and"


async def test_a_model_that_repeats_itself_is_stopped_at_the_limit(retriever: StoreRetriever) -> None:
    asked = 0

    async def loop(prompt: Prompt) -> AsyncIterator[Delta]:
        nonlocal asked
        while True:
            asked += 1
            yield Delta(text="blue " * 10)

    answer = await replace(pipeline(retriever), generate=loop, max_answer=1_000).ask(
        Query("When does the ferry leave?")
    )
    assert (len(answer.text), answer.partial, answer.degraded) == (999, True, ("answer_cut",))
    assert asked <= 21


class TestStoreRetriever:
    async def test_each_mode_names_its_scale(self, retriever: StoreRetriever) -> None:
        """A51, A52, W25, C28: no number without the name of its scale."""
        for mode, scale in (("hybrid", "hybrid"), ("vector", "cosine"), ("text", "text")):
            hits = await replace(retriever, mode=mode)(Query("ferry Halm dogs"))  # type: ignore[arg-type]
            assert hits[0].title == "ferry"
            assert hits[0].scores[-1].scale == scale

    async def test_a_request_narrows_what_the_retriever_may_see_and_never_widens_it(
        self, retriever: StoreRetriever
    ) -> None:
        mandatory = replace(retriever, scope=Scope(bases=("garden",), filter=parse('name == "garden"')))
        for scope in (Scope(), Scope(bases=("ferry", "garden")), Scope(filter=parse('name == "garden"'))):
            hits = await mandatory(Query("ferry Halm", scope=scope))
            assert {hit.base_id for hit in hits} == {"garden"}
        for scope in (Scope(bases=("ferry",)), Scope(filter=parse('name == "ferry"')), Scope(bases=())):
            assert await mandatory(Query("ferry Halm", scope=scope)) == []

    async def test_without_the_embedding_model_text_search_goes_on_and_it_is_said(
        self, retriever: StoreRetriever
    ) -> None:
        class Down(FakeEmbedder):
            async def embed_queries(self, texts: Sequence[str]) -> Vectors:
                raise ProviderUnavailable("core.query_blank")

        down = replace(retriever, embedder=Down())
        result = await pipeline(down).search(Query("ferry"))
        assert result.degraded == ("embedder_failed",)
        assert [hit.title for hit in result.hits] == ["ferry"]
        with pytest.raises(ProviderUnavailable):
            await replace(down, mode="vector")(Query("ferry"))

    async def test_min_score_acts_on_the_score_that_is_shown(self, retriever: StoreRetriever) -> None:
        for mode in ("hybrid", "vector", "text"):
            full = await replace(retriever, mode=mode)(Query("ferry timer"))  # type: ignore[arg-type]
            least = full[0].score
            kept = await replace(retriever, mode=mode, min_score=least)(Query("ferry timer"))  # type: ignore[arg-type]
            assert [hit.chunk.chunk_id for hit in kept] == [
                hit.chunk.chunk_id for hit in full if hit.score >= least
            ]

    @pytest.mark.parametrize("wrong", [{"top_k": 0}, {"top_k": -1}, {"top_k": 1_000_000}, {"top_k": True}])
    def test_wrong_numbers_are_refused(self, wrong: dict[str, int]) -> None:
        from ragstone.errors import InvalidQuery

        with pytest.raises(InvalidQuery, match=str(next(iter(wrong.values())))):
            StoreRetriever(store=MemoryStore(), embedder=FakeEmbedder(), **wrong)  # type: ignore[arg-type]


def test_a_chunk_names_itself_by_its_content() -> None:
    chunk = Chunk(text="a", document_id="d", index=0, start=0, end=1)
    assert chunk.chunk_id == Chunk(text="a", document_id="d", index=0, start=0, end=1).chunk_id
    assert chunk.chunk_id != Chunk(text="b", document_id="d", index=0, start=0, end=1).chunk_id
