"""What was said before: a window of each conversation, whole turns only.

A *turn* is a user's message with whatever answers it. Whole turns leave, oldest first, so
that no answer is left without its question in front. System messages stay and count. The
question being asked is not in the memory: a turn enters when its answer has come.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from ragstone.embed.estimate import EstimatedTokenizer
from ragstone.errors import InvalidQuery, InvalidStage
from ragstone.protocols import Tokenizer
from ragstone.types import Message

MAX_MESSAGES = 10
"""Five questions with their answers (row A73)."""

MAX_CHATS = 1_000
"""Conversations that one process remembers: about 20 MB with answers of 2,000 characters."""

PARTIAL_MARK = " […]"
"""Behind an answer that was left before its end, so that a model does not take it for whole."""


def window(
    messages: Sequence[Message],
    *,
    max_messages: int = MAX_MESSAGES,
    max_tokens: int | None = None,
    tokenizer: Tokenizer | None = None,
) -> tuple[Message, ...]:
    """The system messages and the latest whole turns that fit, in their order.

    `max_tokens` limits the text as well, counted by `tokenizer` (an estimate by default).
    System messages stay even where they alone are over a limit.

    Raises:
        InvalidStage: a limit below 1, or an item that is no message.
    """
    _checked(max_messages, max_tokens)
    for index, message in enumerate(messages):
        if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidStage("memory.item", index=index, value=repr(message)[:80])
    counter = tokenizer or EstimatedTokenizer()
    costs = [counter.count(message.content) if max_tokens else 0 for message in messages]
    kept = {index for index, message in enumerate(messages) if message.role == "system"}
    tokens = sum(costs[index] for index in kept)
    for turn in reversed(_turns(messages)):
        tokens += sum(costs[index] for index in turn)
        if len(kept) + len(turn) > max_messages or (max_tokens and tokens > max_tokens):
            break
        kept.update(turn)
    return tuple(message for index, message in enumerate(messages) if index in kept)


def _turns(messages: Sequence[Message]) -> list[list[int]]:
    """Indexes of the messages of each turn; what comes before the first question belongs to none."""
    turns: list[list[int]] = []
    for index, message in enumerate(messages):
        if message.role == "user":
            turns.append([index])
        elif message.role == "assistant" and turns:
            turns[-1].append(index)
    return turns


def turn(question: str, answer: str, *, whole: bool = True) -> tuple[Message, ...]:
    """A question with its answer as messages; nothing where nothing was said (pure).

    An answer that is not `whole` ends in `PARTIAL_MARK`.
    """
    if not answer.strip():
        return ()
    said = answer if whole else answer.rstrip() + PARTIAL_MARK
    return (Message(role="user", content=question), Message(role="assistant", content=said))


def checked_chat_id(chat_id: str) -> str:
    """The id of a conversation, if it is a text that is not blank; else `InvalidQuery`."""
    if not isinstance(chat_id, str) or not chat_id.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidQuery("memory.chat_id", value=repr(chat_id)[:80])
    return chat_id


class WindowMemory:
    """Implements `protocols.Memory` in this process: a window for each conversation.

    Conversations know nothing of each other. Beyond `max_chats` the one that was not used
    for the longest time is forgotten.

    Raises:
        InvalidStage: a limit below 1.
    """

    def __init__(
        self,
        *,
        max_messages: int = MAX_MESSAGES,
        max_tokens: int | None = None,
        tokenizer: Tokenizer | None = None,
        max_chats: int = MAX_CHATS,
    ) -> None:
        _checked(max_messages, max_tokens)
        if max_chats < 1:
            raise InvalidStage("memory.limit", name="max_chats", value=max_chats)
        self._max_messages = max_messages
        self._max_tokens = max_tokens
        self._tokenizer = tokenizer
        self._max_chats = max_chats
        self._chats: OrderedDict[str, tuple[Message, ...]] = OrderedDict()

    async def messages(self, chat_id: str) -> tuple[Message, ...]:
        checked_chat_id(chat_id)
        if chat_id in self._chats:
            self._chats.move_to_end(chat_id)
        return self._chats.get(chat_id, ())

    async def add(self, chat_id: str, messages: Sequence[Message]) -> None:
        checked_chat_id(chat_id)
        self._chats[chat_id] = window(
            (*self._chats.get(chat_id, ()), *messages),
            max_messages=self._max_messages,
            max_tokens=self._max_tokens,
            tokenizer=self._tokenizer,
        )
        self._chats.move_to_end(chat_id)
        while len(self._chats) > self._max_chats:
            self._chats.popitem(last=False)

    async def clear(self, chat_id: str) -> None:
        self._chats.pop(chat_id, None)


def _checked(max_messages: int, max_tokens: int | None) -> None:
    for name, value in (("max_messages", max_messages), ("max_tokens", max_tokens)):
        if value is not None and value < 1:
            raise InvalidStage("memory.limit", name=name, value=value)
