"""Four ways to ask, from none of the blocks to most of them, in one program.

    python examples/modular.py

1. Sample documents are stored with the metadata `year` and `name`.
2. A chat model alone.
3. The chat model with what is found, of one year only.
4. All: other wordings, a translation, one list of all that was found, its first hit, and an answer
   even where nothing was found. The question as it was asked is searched too.
"""

from __future__ import annotations

import anyio

from ragstone import (
    CitedContext,
    Message,
    ModelGenerator,
    MultiQuery,
    Query,
    QueryPipeline,
    Scope,
    StoreRetriever,
    Translate,
)
from ragstone.filters import key
from ragstone.fuse import concatenate
from ragstone.protocols import ChatModel
from ragstone.select import first
from ragstone.testing import FakeEmbedder
from ragstone.testing.chat import FakeChatModel as Says
from sample_documents import DOCUMENTS, stored


async def without_retrieval(chat: ChatModel, question: str) -> str:
    return (await chat.complete([Message(role="user", content=question)])).text


def with_retrieval(retriever: StoreRetriever, chat: ChatModel) -> QueryPipeline:
    return QueryPipeline(retrievers=[retriever], augment=CitedContext(), generate=ModelGenerator(chat))


def with_all(
    retriever: StoreRetriever, chat: ChatModel, translator: ChatModel, rewriter: ChatModel
) -> QueryPipeline:
    return QueryPipeline(
        transform=[Translate(translator, "English")],
        expand=MultiQuery(rewriter),
        retrievers=[retriever],
        fuse=concatenate,
        fuse_queries=concatenate,
        select=[first],
        augment=CitedContext(allow_empty=True),
        generate=ModelGenerator(chat),
    )


async def main() -> None:
    embedder = FakeEmbedder()
    retriever = StoreRetriever(store=await stored(embedder), embedder=embedder, mode="vector")
    print("1.", len(DOCUMENTS), "documents stored")

    print("2.", await without_retrieval(Says("I do not know your library."), "借期多长？"))

    of_2024 = Scope(filter=key("year") == 2024)
    answer = await with_retrieval(retriever, Says("At 23:00 [1].")).ask(
        Query("When does the night ferry leave Halm?", scope=of_2024)
    )
    print("3.", answer.text, *(hit.chunk.metadata["year"] for hit in answer.hits))

    everything = with_all(
        retriever,
        Says("三十天 [1]。", "Good morning."),
        Says("How long may a book be borrowed?"),
        Says("loan period of books\nlibrary rules for loans\n借书期限"),
    )
    answer = await everything.ask(Query("图书馆的书借期为多少天？"))
    print("4.", answer.text, *(hit.title for hit in answer.hits))
    answer = await everything.ask(Query("Good morning!", scope=Scope(bases=())))
    print("  ", answer.text)


if __name__ == "__main__":
    anyio.run(main)
