"""The same in llama-index-core: condensed, QueryFusionRetriever, postprocessor, RetrieverQueryEngine."""

from __future__ import annotations

from typing import Any

from fakes import FOUND, HISTORY, KEPT, PASSAGES, QUESTION, STANDALONE, WORDINGS, main, places, reply, score
from llama_index.core import PromptTemplate, get_response_synthesizer
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.retrievers import BaseRetriever, QueryFusionRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

NODES = [TextNode(id_=str(number), text=text) for number, text in enumerate(PASSAGES)]


class Chat(CustomLLM):
    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(context_window=8_000)

    def complete(self, prompt: str, formatted: bool = False, **options: Any) -> CompletionResponse:
        return CompletionResponse(text=reply(prompt))

    def stream_complete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
        yield self.complete(prompt)


class Retriever(BaseRetriever):
    def __init__(self, number: int) -> None:
        self._number = number
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        ranked = enumerate(places(self._number, query_bundle.query_str))
        return [NodeWithScore(node=NODES[place], score=score(rank)) for rank, place in ranked]


class Ranker(BaseNodePostprocessor):
    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        for number, node in enumerate(nodes):
            node.score = score(number)
        return nodes[:KEPT]


CHAT = Chat()
CONDENSE = PromptTemplate("{history}\nReword the question so that it stands alone: {question}")
RETRIEVER = QueryFusionRetriever(
    [Retriever(0), Retriever(1)],
    llm=CHAT,
    mode="reciprocal_rerank",
    similarity_top_k=2 * FOUND,
    num_queries=4,
)
ENGINE = RetrieverQueryEngine(
    RETRIEVER,
    response_synthesizer=get_response_synthesizer(CHAT, response_mode="compact"),
    node_postprocessors=[Ranker()],
)


async def ask() -> str:
    history = "\n".join(f"{role}: {text}" for role, text in HISTORY)
    standalone = await CHAT.acomplete(CONDENSE.format(history=history, question=QUESTION))
    return str(await ENGINE.aquery(standalone.text))


async def parts() -> None:
    for prompt in (QUESTION, STANDALONE, f"Passage {QUESTION}"):
        CHAT.complete(prompt)
    for text in (STANDALONE, *WORDINGS):
        for number in (0, 1):
            for rank, place in enumerate(places(number, text)):
                NodeWithScore(node=NODES[place], score=score(rank))
    Ranker()._postprocess_nodes([NodeWithScore(node=node, score=0.0) for node in NODES[: 2 * FOUND]])


if __name__ == "__main__":
    main(ask, parts)
