"""The same in haystack-ai: components joined in a Pipeline."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from fakes import FOUND, HISTORY, KEPT, PASSAGES, QUESTION, STANDALONE, WORDINGS, main, places, reply, score
from haystack import Document, Pipeline, component
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder
from haystack.components.converters import OutputAdapter
from haystack.components.joiners import DocumentJoiner
from haystack.components.query import QueryExpander
from haystack.components.retrievers import MultiQueryTextRetriever
from haystack.dataclasses import ChatMessage

DOCUMENTS = [Document(id=str(number), content=text) for number, text in enumerate(PASSAGES)]
FOUND_BY = [
    [
        [
            Document(id=DOCUMENTS[place].id, content=DOCUMENTS[place].content, score=score(rank))
            for rank, place in enumerate(places(retriever, "x" * length))
        ]
        for length in range(4)
    ]
    for retriever in (0, 1)
]


@component
class Chat:
    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        said = reply(messages[-1].text or "")
        if said == "\n".join(WORDINGS):
            said = json.dumps({"queries": WORDINGS})
        return {"replies": [ChatMessage.from_assistant(said)]}


@component
class Retriever:
    def __init__(self, number: int) -> None:
        self._number = number

    @component.output_types(documents=list[Document])
    def run(self, query: str, filters: Any = None, top_k: Any = None) -> dict[str, Any]:
        return {"documents": FOUND_BY[self._number][len(query) % 4]}


@component
class Ranker:
    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document]) -> dict[str, Any]:
        ranked = [replace(document, score=score(number)) for number, document in enumerate(documents)]
        return {"documents": ranked[:KEPT]}


COMPRESS = """{% for role, text in history %}{{ role }}: {{ text }}
{% endfor %}Reword the question so that it stands alone: {{ question }}"""
ANSWER_PROMPT = """{% for document in documents %}[{{ loop.index }}] {{ document.content }}
{% endfor %}Answer from the passages and cite them as [1]: {{ question }}"""


def pipeline() -> Pipeline:
    made = Pipeline()
    made.add_component(
        "compress", ChatPromptBuilder([ChatMessage.from_user(COMPRESS)], required_variables="*")
    )
    made.add_component("compress_chat", Chat())
    made.add_component("standalone", OutputAdapter("{{ replies[0].text }}", str))
    made.add_component("expand", QueryExpander(chat_generator=Chat(), n_expansions=3))
    made.add_component("first", MultiQueryTextRetriever(retriever=Retriever(0)))
    made.add_component("second", MultiQueryTextRetriever(retriever=Retriever(1)))
    made.add_component("fuse", DocumentJoiner("reciprocal_rank_fusion", top_k=2 * FOUND))
    made.add_component("rerank", Ranker())
    made.add_component(
        "augment", ChatPromptBuilder([ChatMessage.from_user(ANSWER_PROMPT)], required_variables="*")
    )
    made.add_component("generate", Chat())
    made.add_component("answer", AnswerBuilder(reference_pattern=r"\[(\d+)\]"))
    made.connect("compress.prompt", "compress_chat.messages")
    made.connect("compress_chat.replies", "standalone.replies")
    made.connect("standalone.output", "expand.query")
    made.connect("expand.queries", "first.queries")
    made.connect("expand.queries", "second.queries")
    made.connect("first.documents", "fuse.documents")
    made.connect("second.documents", "fuse.documents")
    made.connect("fuse.documents", "rerank.documents")
    made.connect("standalone.output", "rerank.query")
    made.connect("rerank.documents", "augment.documents")
    made.connect("augment.prompt", "generate.messages")
    made.connect("generate.replies", "answer.replies")
    made.connect("rerank.documents", "answer.documents")
    return made


PIPELINE = pipeline()


async def ask() -> str:
    result = PIPELINE.run(
        {
            "compress": {"history": HISTORY, "question": QUESTION},
            "augment": {"question": QUESTION},
            "answer": {"query": QUESTION},
        }
    )
    return result["answer"]["answers"][0].data


async def parts() -> None:
    chat, first, second = Chat(), Retriever(0), Retriever(1)
    for prompt in (QUESTION, STANDALONE, f"Passage {QUESTION}"):
        chat.run([ChatMessage.from_user(prompt)])
    for text in (STANDALONE, *WORDINGS):
        first.run(text)
        second.run(text)
    Ranker().run(STANDALONE, DOCUMENTS[: 2 * FOUND])


if __name__ == "__main__":
    main(ask, parts)
