"""What the query path does when a part of it fails or leaves passages out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from ragstone import (
    CitedContext,
    Document,
    Hit,
    MemoryStore,
    ModelGenerator,
    Prompt,
    Query,
    QueryPipeline,
    RecursiveSplitter,
    Scope,
    StoreRetriever,
    Vectors,
)
from ragstone.errors import InvalidQuery, ModelUnavailable, ProviderUnavailable, StoreUnavailable
from ragstone.testing import FakeEmbedder
from ragstone.testing.chat import FakeChatModel
from ragstone.trace import degrade, note
from ragstone.types import Delta

pytestmark = pytest.mark.anyio

LINES = ("The mill opens at nine.", "The mill sells flour.", "The mill has two wheels.")


class Down(FakeEmbedder):
    """A model that answers for documents only."""

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        raise ProviderUnavailable("embed.unavailable", url="http://localhost", reason="no connection")


async def filled(embedder: FakeEmbedder) -> MemoryStore:
    store = MemoryStore()
    split = RecursiveSplitter(max_size=20, overlap=0, tokenizer=embedder.tokenizer)
    for name, text in enumerate(LINES):
        document = Document(text=text, uri=f"file:///{name}", title=str(name))
        chunks = split(document)
        vectors = await embedder.embed_documents([chunk.embedding_text for chunk in chunks])
        await store.replace(document, chunks, vectors)
    return store


def pipeline(*retrievers: object, answer: str = "Nine [1].", augment: object = None) -> QueryPipeline:
    return QueryPipeline(
        retrievers=retrievers,  # type: ignore[arg-type]
        augment=augment or CitedContext(),  # type: ignore[arg-type]
        generate=ModelGenerator(FakeChatModel(answer)),
    )


async def test_of_several_retrievers_that_all_fail_the_first_one_s_own_error_comes_through() -> None:
    async def broken(query: Query) -> list[Hit]:
        raise StoreUnavailable("postgres.closed")

    with pytest.raises(StoreUnavailable):
        await pipeline(broken, broken).search(Query("mill"))


async def test_a72_c38_what_the_augmenter_leaves_out_is_neither_a_source_nor_cited() -> None:
    found = StoreRetriever(store=await filled(FakeEmbedder()), embedder=None, mode="text")

    async def last_only(query: Query, hits: Sequence[Hit]) -> Prompt:
        return await CitedContext()(query, hits[-1:])

    answer = await pipeline(found, augment=last_only, answer="So it says [1].").ask(Query("mill"))
    assert answer.hits == answer.retrieved[-1:]
    assert [citation.chunk_id for citation in answer.citations] == [answer.retrieved[-1].chunk.chunk_id]


async def test_d10_a_stage_that_forgets_the_scope_does_not_widen_it() -> None:
    found = StoreRetriever(store=await filled(FakeEmbedder()), embedder=None, mode="text")

    async def forgetful(query: Query) -> Query:
        return Query(f"{query.text} flour")

    async def forgetting(query: Query) -> list[Query]:
        return [query, Query("wheels")]

    for stages in ({"transform": [forgetful]}, {"expand": forgetting}):
        searching = replace(pipeline(found), **stages)  # type: ignore[arg-type]
        assert (await searching.search(Query("mill"))).hits
        assert (await searching.search(Query("mill", scope=Scope(bases=("other",))))).hits == ()


async def test_without_the_model_min_score_of_another_scale_leaves_nothing_out() -> None:
    down = Down()
    retriever = StoreRetriever(store=await filled(down), embedder=down, min_score=0.9)
    result = await pipeline(retriever).search(Query("mill flour"))
    assert len(result.hits) == len(LINES)
    assert result.degraded == ("embedder_failed",)
    with pytest.raises(ProviderUnavailable):
        await replace(retriever, mode="vector")(Query("mill flour"))


async def test_a_min_score_that_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidQuery):
        StoreRetriever(store=MemoryStore(), embedder=FakeEmbedder(), min_score=float("nan"))


async def test_d9_a_generator_that_streams_may_mark_and_note_and_a_failed_one_is_in_the_trace() -> None:
    found = StoreRetriever(store=await filled(FakeEmbedder()), embedder=None, mode="text")

    async def failing(prompt: Prompt) -> AsyncIterator[Delta]:
        note(tried="first")
        raise ModelUnavailable("chat.no_file", path="x.gguf")
        yield

    async def standing_in(prompt: Prompt) -> AsyncIterator[Delta]:
        degrade("embedder_failed")
        yield Delta(text="Nine [1]. ")
        note(words=2)
        yield Delta(text="So it says [1].")

    answering = replace(pipeline(found), generate=failing, fallback=standing_in)
    answer = await answering.ask(Query("mill"))
    assert answer.text == "Nine [1]. So it says [1]."
    assert answer.degraded == ("chat_failed", "embedder_failed")
    details = [step.detail for step in answer.trace if step.stage == "generate"]
    assert details == [{"tried": "first", "failed": "ModelUnavailable"}, {"words": 2}]
    # Nothing of it is left for whoever reads the stream.
    degrade("outside")
    assert "outside" not in answer.degraded


@pytest.mark.parametrize("said", ["", " \n", "<think>hm</think>"])
async def test_a77_a_blank_answer_is_a_refusal(said: str) -> None:
    found = StoreRetriever(store=await filled(FakeEmbedder()), embedder=None, mode="text")
    answer = await pipeline(found, answer=said).ask(Query("mill"))
    assert not answer.answered
    assert answer.text.startswith("The documents")
