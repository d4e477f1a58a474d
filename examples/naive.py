"""Naive: one question, one retriever, one answer. Without a chat model it is quoted.

python examples/naive.py
"""

from __future__ import annotations

import anyio

from ragstone import CitedContext, ExtractiveGenerator, Query, QueryPipeline, StoreRetriever
from ragstone.testing import FakeEmbedder
from sample_documents import stored


async def main() -> None:
    embedder = FakeEmbedder()
    pipeline = QueryPipeline(
        retrievers=[StoreRetriever(store=await stored(embedder), embedder=embedder, top_k=3)],
        augment=CitedContext(),
        generate=ExtractiveGenerator(embedder),
    )
    for question in ("How often is the P-200 pump serviced?", "每次最多借几本书？", "Who won the cup?"):
        answer = await pipeline.ask(Query(question))
        print(question, "->", answer.text)


if __name__ == "__main__":
    anyio.run(main)
