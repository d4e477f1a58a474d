"""A chat model that says what it was told to say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from ragstone.types import Delta, Message, Usage


class FakeChatModel:
    """Gives the scripted answers in order, then the last one again and again.

    An answer is a text, a sequence of deltas (how a stream is cut), or an error to raise;
    an error may also stand among the deltas. `requests` holds the messages of each call,
    `closed_early` counts streams that were left before their end.
    """

    def __init__(
        self, *answers: str | Exception | Sequence[str | Exception], identity: str = "fake-chat"
    ) -> None:
        if not answers:
            raise ValueError("FakeChatModel needs at least one answer")
        self._answers = [[answer] if isinstance(answer, (str, Exception)) else answer for answer in answers]
        self._identity = identity
        self.requests: list[tuple[Message, ...]] = []
        self.closed_early = 0
        self.closed = False

    @property
    def identity(self) -> str:
        return self._identity

    async def stream(self, messages: Sequence[Message]) -> AsyncIterator[Delta]:
        pieces = self._next(messages)
        ended = False
        try:
            for piece in pieces:
                if isinstance(piece, Exception):
                    ended = True
                    raise piece
                yield Delta(text=piece)
            ended = True
            yield Delta(text="", usage=self._usage(messages, pieces))
        finally:
            self.closed_early += not ended

    async def complete(self, messages: Sequence[Message]) -> Delta:
        pieces = self._next(messages)
        for piece in pieces:
            if isinstance(piece, Exception):
                raise piece
        text = "".join(piece for piece in pieces if isinstance(piece, str))
        return Delta(text=text, usage=self._usage(messages, pieces))

    async def aclose(self) -> None:
        self.closed = True

    def _next(self, messages: Sequence[Message]) -> Sequence[str | Exception]:
        self.requests.append(tuple(messages))
        return self._answers[min(len(self.requests), len(self._answers)) - 1]

    def _usage(self, messages: Sequence[Message], pieces: Sequence[str | Exception]) -> Usage:
        """One token a message read, one a delta written."""
        return Usage(input_tokens=len(messages), output_tokens=len(pieces))
