"""The same in langchain: history-aware, multi-query, ensemble and compression retrievers, stuffed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fakes import FOUND, HISTORY, KEPT, PASSAGES, QUESTION, STANDALONE, WORDINGS, main, places, reply, score
from langchain_classic.chains import create_history_aware_retriever, create_retrieval_chain
from langchain_classic.chains.combine_documents import create_stuff_documents_chain
from langchain_classic.retrievers import (
    ContextualCompressionRetriever,
    EnsembleRetriever,
    MultiQueryRetriever,
)
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever

DOCUMENTS = [Document(id=str(number), page_content=text) for number, text in enumerate(PASSAGES)]
FOUND_BY = [
    [[DOCUMENTS[place] for place in places(retriever, "x" * length)] for length in range(4)]
    for retriever in (0, 1)
]


class Chat(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "fake"

    def _generate(self, messages: list[BaseMessage], *arguments: Any, **options: Any) -> ChatResult:
        # The question comes last and the passages first.
        said = reply(f"{messages[0].content}\n{messages[-1].content}")
        return ChatResult(generations=[ChatGeneration(message=AIMessage(content=said))])


class Retriever(BaseRetriever):
    number: int

    def _get_relevant_documents(self, query: str, **options: Any) -> list[Document]:
        return FOUND_BY[self.number][len(query) % 4]


class Ranker(BaseDocumentCompressor):
    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        scores = [score(number) for number, _ in enumerate(documents)]
        return [document for _, document in zip(scores, documents, strict=True)][:KEPT]


CHAT = Chat()


def chain() -> Any:
    compress = ChatPromptTemplate.from_messages(
        [
            ("system", "Reword the question so that it stands alone."),
            MessagesPlaceholder("chat_history"),
            ("human", "{input}"),
        ]
    )
    answer = ChatPromptTemplate.from_messages(
        [
            ("system", "Answer from the passages and cite them as [1].\n{context}"),
            MessagesPlaceholder("chat_history"),
            ("human", "{input}"),
        ]
    )
    fused = EnsembleRetriever(retrievers=[Retriever(number=0), Retriever(number=1)], weights=[0.5, 0.5])
    expanded = MultiQueryRetriever.from_llm(retriever=fused, llm=CHAT, include_original=True)
    reranked = ContextualCompressionRetriever(base_compressor=Ranker(), base_retriever=expanded)
    found = create_history_aware_retriever(CHAT, reranked, compress)
    return create_retrieval_chain(found, create_stuff_documents_chain(CHAT, answer))


CHAIN = chain()
MESSAGES = [HumanMessage(text) if role == "user" else AIMessage(text) for role, text in HISTORY]


async def ask() -> str:
    return CHAIN.invoke({"input": QUESTION, "chat_history": MESSAGES})["answer"]


async def parts() -> None:
    first, second = Retriever(number=0), Retriever(number=1)
    for prompt in (QUESTION, STANDALONE, f"Passage {QUESTION}"):
        CHAT._generate([HumanMessage(prompt)])
    for text in (STANDALONE, *WORDINGS):
        first._get_relevant_documents(text)
        second._get_relevant_documents(text)
    Ranker().compress_documents(DOCUMENTS[: 2 * FOUND], STANDALONE)


if __name__ == "__main__":
    main(ask, parts)
