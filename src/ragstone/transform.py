"""One question to a better one: rewrite, compress, translate, step-back, HyDE.

Each asks a chat model, with a prompt file that `template` replaces. When the model fails,
is late or says nothing of use, the question stays as it is and the answer is marked
(`rewrite_failed`, `compress_failed`, ...). The pipeline searches with the question as it
was asked too, so that a bad wording loses nothing (rows W12, W34).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragstone.embed.estimate import EstimatedTokenizer
from ragstone.errors import InvalidStage
from ragstone.generate.visible import without_thinking
from ragstone.instruct import ASK_SECONDS, Instruction
from ragstone.prompts import Wording
from ragstone.protocols import ChatModel
from ragstone.readback import answers, declines, normalised, read_line, read_text, shares_a_word
from ragstone.trace import note
from ragstone.types import MAX_QUERY_LENGTH, Message, Query

DEFAULT_TARGET = "vector store"
HISTORY_TOKENS = 1_000
"""What of a conversation tells what "it" is: its last few turns."""

PREVIOUS_TOKENS = 100
"""Of the question before: what it is about stands early, and the follow-up must fit behind it."""

MAX_PASSAGE = 2_000
"""Characters of a hypothetical answer: more than an embedding model reads."""

STANDALONE = "standalone_question"
"""Key of `Query.context`: the question that `Compress` made of a follow-up."""


class Rewrite:
    """Rewords a question for the system that is searched (rows A36, A41)."""

    def __init__(
        self,
        chat: ChatModel,
        *,
        target: str = DEFAULT_TARGET,
        template: Wording | None = None,
        seconds: float = ASK_SECONDS,
    ) -> None:
        if not target.strip():
            raise InvalidStage("transform.blank", name="target")
        self._target = target.strip()
        self._model = Instruction(
            chat, "rewrite", placeholders=("target", "query"), template=template, seconds=seconds
        )

    async def __call__(self, query: Query) -> Query:
        output = await self._model.ask(query.text, target=self._target, query=query.text)
        text = _kept(read_line(output), query, self._model) if output else ""
        return _reworded(query, text, output, self._model)


class Compress:
    """Makes a question that needs its history into one that stands alone (row A35).

    The model reads the user's and assistant's messages, the latest that fit into
    `history_tokens`; without any it is not asked (row W27).
    """

    def __init__(
        self,
        chat: ChatModel,
        *,
        history_tokens: int = HISTORY_TOKENS,
        template: Wording | None = None,
        seconds: float = ASK_SECONDS,
    ) -> None:
        if history_tokens < 1:
            raise InvalidStage("transform.history_tokens", value=history_tokens)
        self._tokens = history_tokens
        self._model = Instruction(
            chat, "compress", placeholders=("history", "query"), template=template, seconds=seconds
        )

    async def __call__(self, query: Query) -> Query:
        history = _shown(query.history, self._tokens)
        if not history:
            return query
        output = await self._model.ask(query.text, history=history, query=query.text)
        text = _kept(read_line(output), query, self._model) if output else ""
        reworded = _reworded(query, text, output, self._model)
        # A question that stands alone already is known to do so from here on.
        return replace(reworded, context={**query.context, STANDALONE: reworded.text}) if text else query


class PreviousTurn:
    """Puts the question before in front of a follow-up, where no chat model can make it whole.

    At most `max_tokens` of it, so that an embedding model reads the follow-up too. No more
    than one turn: several glued together dilute what is asked. The first question of a
    conversation stays as it is, and one that `Compress` has made whole before this stage.
    See benchmarks/results/follow_ups.md.
    """

    def __init__(self, *, max_tokens: int = PREVIOUS_TOKENS) -> None:
        if max_tokens < 1:
            raise InvalidStage("transform.history_tokens", value=max_tokens)
        self._tokens = max_tokens

    async def __call__(self, query: Query) -> Query:
        asked = [message.content.strip() for message in query.history if message.role == "user"]
        previous = next((text for text in reversed(asked) if text), "")
        if not previous or STANDALONE in query.context:
            return query
        offsets = EstimatedTokenizer().offsets(previous)
        if len(offsets) > self._tokens:
            previous = previous[: offsets[self._tokens - 1][1]]
        text = f"{previous}\n{query.text}"[-MAX_QUERY_LENGTH:]
        note(query=text)
        return replace(query, text=text, context={**query.context, STANDALONE: text})


class Translate:
    """Puts a question into the language of the documents, such as `English` or `中文` (row A37).

    One that is in this language, or in none that the model knows, stays as it is.
    """

    def __init__(
        self,
        chat: ChatModel,
        language: str,
        *,
        template: Wording | None = None,
        seconds: float = ASK_SECONDS,
    ) -> None:
        if not language.strip():
            raise InvalidStage("transform.blank", name="language")
        self._language = language.strip()
        self._model = Instruction(
            chat, "translate", placeholders=("language", "query"), template=template, seconds=seconds
        )

    async def __call__(self, query: Query) -> Query:
        output = await self._model.ask(query.text, language=self._language, query=query.text)
        return _reworded(query, output and read_line(output), output, self._model)


class StepBack:
    """Asks the more general question behind a narrow one (Zheng et al. 2023, row A40)."""

    def __init__(
        self, chat: ChatModel, *, template: Wording | None = None, seconds: float = ASK_SECONDS
    ) -> None:
        self._model = Instruction(
            chat, "step_back", placeholders=("query",), template=template, seconds=seconds
        )

    async def __call__(self, query: Query) -> Query:
        output = await self._model.ask(query.text, query=query.text)
        return _reworded(query, output and read_line(output), output, self._model)


class HyDE:
    """Searches with a passage that might answer the question (Gao et al. 2022, row A40).

    The passage is invented: it is searched with and never shown.
    """

    def __init__(
        self, chat: ChatModel, *, template: Wording | None = None, seconds: float = ASK_SECONDS
    ) -> None:
        self._model = Instruction(chat, "hyde", placeholders=("query",), template=template, seconds=seconds)

    async def __call__(self, query: Query) -> Query:
        output = await self._model.ask(query.text, query=query.text)
        return _reworded(query, output and read_text(output, limit=MAX_PASSAGE), output, self._model)


def _kept(text: str, query: Query, model: Instruction) -> str:
    """A rewording that is about what was said; "" for one about something else, or an answer."""
    known = "\n".join((*(message.content for message in query.history), query.text))
    if text and (answers(text, known) or not shares_a_word(text, known)):
        model.unusable("not the question")
        return ""
    return text


def _reworded(query: Query, text: str, output: str, model: Instruction) -> Query:
    """The query with a new text; the same object where there is none, or it says the same."""
    if text and declines(text, query.text):
        model.unusable("refused")
        return query
    if not text:
        if output:
            model.unusable("unreadable")
        return query
    if normalised(text) == normalised(query.text):
        return query
    note(query=text)
    return replace(query, text=text)


def _shown(history: Sequence[Message], budget: int) -> str:
    """The latest messages of user and assistant within the budget, one a line: `user: ...`."""
    tokenizer = EstimatedTokenizer()
    shown: list[str] = []
    for message in reversed(history):
        text = " ".join(without_thinking(message.content).split())
        if message.role == "system" or not text:
            continue
        offsets = tokenizer.offsets(text)
        if len(offsets) > budget:
            if shown:
                break
            text = text[: offsets[budget - 1][1]]
        budget -= len(offsets)
        shown.append(f"{message.role}: {text}")
        if budget < 1:
            break
    return "\n".join(reversed(shown))
