"""One question to several: other wordings, or its parts.

Rows A39, W01, W02: the original comes first, doubles are dropped, what can be read of the
model's output is kept, too many are cut. When nothing can be read the question stays
alone and the answer is marked `multi_query_failed` or `decompose_failed`.
"""

from __future__ import annotations

from dataclasses import replace

from ragstone.errors import InvalidStage
from ragstone.instruct import ASK_SECONDS, Instruction
from ragstone.prompts import Wording
from ragstone.protocols import ChatModel
from ragstone.readback import answers, declines, normalised, read_lines
from ragstone.trace import note
from ragstone.types import Query

MAX_QUERIES = 20
"""Each is a search of its own."""


class MultiQuery:
    """`n` other wordings of a question behind the original.

    Without `include_original` the list holds the new wordings only; a pipeline searches
    with the original all the same.

    Raises:
        InvalidStage: `n` outside 1 to 20, or a template without its placeholders.
    """

    def __init__(
        self,
        chat: ChatModel,
        n: int = 3,
        *,
        include_original: bool = True,
        template: Wording | None = None,
        seconds: float = ASK_SECONDS,
    ) -> None:
        self._n = _checked(n)
        self._include_original = include_original
        self._model = Instruction(
            chat, "multi_query", placeholders=("number", "query"), template=template, seconds=seconds
        )

    async def __call__(self, query: Query) -> list[Query]:
        found = await _read(self._model, query, self._n)
        return [query, *found] if self._include_original or not found else found


class Decompose:
    """The original question, then up to `n` questions that it is made of.

    Raises:
        InvalidStage: as `MultiQuery`.
    """

    def __init__(
        self, chat: ChatModel, n: int = 4, *, template: Wording | None = None, seconds: float = ASK_SECONDS
    ) -> None:
        self._n = _checked(n)
        self._model = Instruction(
            chat, "decompose", placeholders=("number", "query"), template=template, seconds=seconds
        )

    async def __call__(self, query: Query) -> list[Query]:
        return [query, *await _read(self._model, query, self._n)]


async def _read(model: Instruction, query: Query, n: int) -> list[Query]:
    output = await model.ask(query.text, number=str(n), query=query.text)
    # The original may be among them: one more is read, so that `n` others remain.
    texts = read_lines(output, n + 1)
    kept = [text for text in texts if not declines(text, query.text) and not answers(text, query.text)]
    if output and len(kept) < max(1, len(texts)):
        model.unusable("refused" if texts else "unreadable")
    texts = kept
    others = [text for text in texts if normalised(text) != normalised(query.text)][:n]
    note(asked=n, queries=others)
    return [replace(query, text=text) for text in others]


def _checked(n: object) -> int:
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MAX_QUERIES:
        raise InvalidStage("expand.number", value=n, limit=MAX_QUERIES)
    return n
