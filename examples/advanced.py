"""Advanced: a follow-up is compressed, reworded, routed, fused, reranked, answered with citations.

    python examples/advanced.py

Each fake model says one thing; put one `OpenAIChatModel(base_url=..., model=...)` in their places.
"""

from __future__ import annotations

import anyio

from ragstone import (
    CitedContext,
    Compress,
    LanguageModelRouter,
    Message,
    ModelGenerator,
    MultiQuery,
    Query,
    QueryPipeline,
    Rerank,
    Route,
    Scope,
    StoreRetriever,
)
from ragstone.filters import key
from ragstone.rerank.judge import ChatJudge
from ragstone.select import MMR, TokenBudget
from ragstone.testing import FakeEmbedder
from ragstone.testing.chat import FakeChatModel as Says
from sample_documents import stored


async def main() -> None:
    embedder = FakeEmbedder()
    store = await stored(embedder)
    ferry, pumps = Scope(filter=key("name") == "Ferry"), Scope(filter=key("name") == "Pumps")
    routes = {
        "timetables": Route(
            "when ferries leave", StoreRetriever(store=store, embedder=embedder, scope=ferry)
        ),
        "machines": Route(
            "pumps and their parts", StoreRetriever(store=store, embedder=embedder, scope=pumps)
        ),
    }
    pipeline = QueryPipeline(
        transform=[Compress(Says("What does a new seal of the P-200 pump cost?"))],
        expand=MultiQuery(Says("price of a P-200 seal\nP-200 spare parts cost\nseal for the pump in hall 3")),
        route=LanguageModelRouter(Says('{"sources": ["machines"]}'), routes, fallback="all"),
        rerank=Rerank(ChatJudge(Says('{"1": 9}'))),
        select=[MMR(5), TokenBudget(2_000)],
        augment=CitedContext(),
        generate=ModelGenerator(Says("A new seal costs 40 euros [1].")),
    )
    history = (
        Message(role="user", content="Which pump is in hall 3?"),
        Message(role="assistant", content="The P-200."),
    )
    answer = await pipeline.ask(Query("And what does its seal cost?", history=history))
    print(answer.text)
    for citation in answer.citations:
        print(f"  [{citation.n}] {citation.title}: {citation.quote}")
    print("stages:", *dict.fromkeys(step.stage for step in answer.trace))


if __name__ == "__main__":
    anyio.run(main)
