"""A conversation with documents: a memory and a pipeline, the AI service of LangChain4j.

assistant = Assistant(pipeline=QueryPipeline(...))
answer = await assistant.ask("How wide is the lake?", chat_id="anna")
answer = await assistant.ask("And how deep?", chat_id="anna")
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

import anyio

from ragstone.errors import RagstoneError
from ragstone.memory import WindowMemory, checked_chat_id, turn
from ragstone.protocols import Answerer, Memory
from ragstone.types import Answer, Delta, Done, Event, Failed, Message, Query, Scope

CHAT_ID = "chat_id"
"""Key of `Query.context`: whose conversation the question belongs to (row A08)."""


@dataclass(frozen=True, kw_only=True)
class Assistant:
    """Answers questions of many conversations, each remembered by its `chat_id`.

    `pipeline` is a `QueryPipeline`, or whatever streams the events of an answer (row A72).
    It receives the question as it was asked, with the conversation as `history` and the
    chat id in `context`; to search with follow-ups, give it a `Compress` or `PreviousTurn`.

    A turn enters the memory when its answer is whole. When it fails or its reader leaves,
    what had been said is kept and marked by `memory.PARTIAL_MARK`; a question to which
    nothing was said is not kept. So an answer never stands without its question, and two
    questions asked at once in one conversation are two turns.
    """

    pipeline: Answerer
    memory: Memory = field(default_factory=WindowMemory)

    async def ask(
        self,
        text: str,
        *,
        chat_id: str = "",
        scope: Scope | None = None,
        context: Mapping[str, object] | None = None,
    ) -> Answer:
        """The finished answer.

        Raises:
            InvalidQuery: a blank or over-long question. What the pipeline's `stream` raises.
        """
        query = await self._query(text, chat_id, scope, context)
        async with aclosing(self._remembered(query, chat_id)) as events:
            async for event in events:
                if isinstance(event, Done):
                    return event.answer
        raise AssertionError("stream() ends with Done")

    async def stream(
        self,
        text: str,
        *,
        chat_id: str = "",
        scope: Scope | None = None,
        context: Mapping[str, object] | None = None,
    ) -> AsyncGenerator[Event, None]:
        """The answer as it comes: stages, sources, deltas, and `Done` or `Failed` last.

        What is wrong with the question itself is raised, before the first event: an
        InvalidQuery. Close the stream to stop the answer.
        """
        query = await self._query(text, chat_id, scope, context)
        async with aclosing(typed_end(self._remembered(query, chat_id))) as events:
            async for event in events:
                yield event

    async def _query(
        self, text: str, chat_id: str, scope: Scope | None, context: Mapping[str, object] | None
    ) -> Query:
        history = await self.memory.messages(checked_chat_id(chat_id)) if chat_id else ()
        return Query(
            text,
            history=tuple(history),
            context={**(context or {}), CHAT_ID: chat_id},
            scope=scope or Scope(),
        )

    async def _remembered(self, query: Query, chat_id: str) -> AsyncGenerator[Event, None]:
        said: list[str] = []
        whole = False
        try:
            async with aclosing(self.pipeline.stream(query)) as events:
                async for event in events:
                    if isinstance(event, Delta):
                        said.append(event.text)
                    elif isinstance(event, Done):
                        whole = True
                        await self._remember(chat_id, turn(query.text, event.answer.text))
                    yield event
        finally:
            if not whole and (partial := turn(query.text, "".join(said), whole=False)):
                # The reader may have left by cancelling: the memory is filled all the same.
                with anyio.CancelScope(shield=True):
                    await self._remember(chat_id, partial)

    async def _remember(self, chat_id: str, messages: Sequence[Message]) -> None:
        if chat_id:  # a question that belongs to no conversation is not kept
            await self.memory.add(chat_id, messages)


async def typed_end(events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
    """`events` for a user interface: an error of ours is their last event, `Failed`, and not raised.

    Anything else that goes wrong is a fault of the program and comes through.
    """
    said: list[str] = []
    async with aclosing(events):
        try:
            async for event in events:
                if isinstance(event, Delta):
                    said.append(event.text)
                yield event
        except RagstoneError as error:
            yield Failed(error=error, text="".join(said))
