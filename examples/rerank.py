"""Retrieve and rerank: twenty candidates, a closer look, five passages, both lists reported.

    python examples/rerank.py

The judge is a chat model; `TeiReranker`, `CohereReranker` or `DashScopeReranker` ask a server.
"""

from __future__ import annotations

import anyio

from ragstone import Query
from ragstone.recipes import retrieve_and_rerank
from ragstone.rerank.judge import ChatJudge
from ragstone.testing import FakeEmbedder
from ragstone.testing.chat import FakeChatModel as Says
from sample_documents import stored


async def main() -> None:
    embedder = FakeEmbedder()
    judge = ChatJudge(Says('{"1": 2, "2": 9}'))
    pipeline = retrieve_and_rerank(
        await stored(embedder), embedder, judge, Says("At 23:00 [1].", "十天 [1]。")
    )

    found = await pipeline.search(Query("When does the night ferry leave Halm?"))
    print("search:", len(found.retrieved), "candidates,", len(found.hits), "kept")

    answer = await pipeline.ask(Query("When does the night ferry leave Halm?"))
    print("before:", *(hit.chunk.metadata["year"] for hit in answer.retrieved[:2]))
    print("after:", *(hit.chunk.metadata["year"] for hit in answer.hits))
    print(answer.text)
    print((await pipeline.ask(Query("员工每年有几天年假？"))).text)


if __name__ == "__main__":
    anyio.run(main)
