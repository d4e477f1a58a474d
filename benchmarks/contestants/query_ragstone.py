"""The Advanced query in Ragstone: compress, expand, two retrievers, fuse, rerank, augment, generate."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence

from fakes import (
    FOUND,
    HISTORY,
    KEPT,
    PASSAGES,
    QUESTION,
    STANDALONE,
    WORDINGS,
    main,
    places,
    reply,
    score,
)

from ragstone import (
    Chunk,
    CitedContext,
    Compress,
    Delta,
    Hit,
    Message,
    ModelGenerator,
    MultiQuery,
    Query,
    QueryPipeline,
    Rerank,
    Score,
)


class Chat:
    identity = "fake"

    async def complete(self, messages: Sequence[Message]) -> Delta:
        return Delta(text=reply(messages[-1].content))

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[Delta]:
        yield Delta(text=reply(messages[-1].content))

    async def aclose(self) -> None:
        pass


class Reranker:
    identity = "fake"

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [score(number) for number, _ in enumerate(texts)]

    async def aclose(self) -> None:
        pass


HITS = [
    Hit(
        chunk=Chunk(text=text, document_id=f"document {number}", index=0, start=0, end=len(text)),
        uri=f"file:///{number}.txt",
        title="",
    )
    for number, text in enumerate(PASSAGES)
]
RANKED = [
    [
        [
            HITS[place].scored(Score(stage="vector", scale="cosine", value=score(rank), rank=rank))
            for rank, place in enumerate(places(retriever, "x" * length), start=1)
        ]
        for length in range(4)
    ]
    for retriever in (0, 1)
]


async def first(query: Query) -> list[Hit]:
    return RANKED[0][len(query.text) % 4]


async def second(query: Query) -> list[Hit]:
    return RANKED[1][len(query.text) % 4]


CHAT = Chat()
PIPELINE = QueryPipeline(
    transform=[Compress(CHAT)],
    expand=MultiQuery(CHAT, n=3),
    retrievers=[first, second],
    rerank=Rerank(Reranker(), top_n=KEPT),
    augment=CitedContext(),
    generate=ModelGenerator(CHAT),
)
HISTORY_MESSAGES = tuple(Message(role=role, content=text) for role, text in HISTORY)  # type: ignore[arg-type]


async def ask() -> str:
    return (await PIPELINE.ask(Query(QUESTION, history=HISTORY_MESSAGES))).text


async def search() -> str:
    return str((await PIPELINE.search(Query(QUESTION, history=HISTORY_MESSAGES))).hits)


async def parts() -> None:
    for prompt in (QUESTION, STANDALONE, f"Passage {QUESTION}"):
        await CHAT.complete([Message(role="user", content=prompt)])
    for text in (STANDALONE, *WORDINGS):
        await first(Query(text))
        await second(Query(text))
    await Reranker().score(STANDALONE, PASSAGES[: 2 * FOUND])


if __name__ == "__main__":
    main(search if "search" in sys.argv else ask, parts)
