"""A chat model as listwise judge: it reads all passages of a batch and grades each."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import cast

from ragstone.augment import new_fence
from ragstone.errors import ProviderError
from ragstone.instruct import ASK_SECONDS, Instruction
from ragstone.prompts import Wording
from ragstone.protocols import ChatModel
from ragstone.readback import leading_json, read_json
from ragstone.rerank.scoring import checked_batch_size, fields, in_batches, number

BATCH_SIZE = 20
"""Passages a prompt: the whole funnel, so that they are compared with each other."""

MAX_PASSAGE = 1_500
"""Characters of a passage that the judge reads."""

_BEST = 10.0
_OUT_OF = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)(?:\s*/\s*(\d{1,3}))?")
_PASSAGE = ("passage", "index", "number", "n", "id", "passage_number", "passage_id")
_RATED = ("grade", "score", "relevance", "rating", "relevance_score")
_PAIR = re.compile(r"[\"\[(]?(\d{1,3})[\"\])]?\s*[:：=]\s*(\d{1,2}(?:\.\d+)?)(?![\d.])")


class ChatJudge:
    """Scores from 0 to 1: the model's grades of 0 to 10, divided by 10.

    `template` replaces the wording; it must name {fence}, {passages} and {query}.

    Raises, from `score`: what the chat model raises; ProviderError when no grade can be read.
    """

    def __init__(
        self,
        chat: ChatModel,
        *,
        batch_size: int = BATCH_SIZE,
        template: Wording | None = None,
        seconds: float = ASK_SECONDS,
        fence: Callable[[], str] = new_fence,
    ) -> None:
        self._chat = chat
        self._batch_size = checked_batch_size(batch_size)
        self._fence = fence
        self._model = Instruction(
            chat, "judge", placeholders=("fence", "passages", "query"), template=template, seconds=seconds
        )

    @property
    def identity(self) -> str:
        return f"judge/{self._chat.identity}"

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        async def some(batch: list[str]) -> list[float]:
            fence = self._fresh_fence(query, batch)
            passages = "\n\n".join(
                f"[{n}]\n<{fence}>\n{text[:MAX_PASSAGE]}\n</{fence}>" for n, text in enumerate(batch, start=1)
            )
            output = await self._model.demand(query, fence=fence, passages=passages, query=query)
            return self._read(output, len(batch))

        return await in_batches(texts, self._batch_size, some)

    async def aclose(self) -> None:
        """Nothing to close: the chat model belongs to who made it."""

    def _fresh_fence(self, query: str, texts: Sequence[str]) -> str:
        fence = self._fence()
        while any(fence in text for text in (query, *texts)):
            fence = new_fence()
        return fence

    def _read(self, output: str, count: int) -> list[float]:
        grades = _grades(output, count)
        scores = [min(grades.get(n, math.nan), _BEST) / _BEST for n in range(1, count + 1)]
        if all(math.isnan(score) for score in scores):
            raise ProviderError(
                "rerank.wrong_answer", name=self.identity, reason=f"no grades: {output[:80]!r}"
            )
        return scores


def _grade(value: object) -> float | None:
    """A grade from 0 to 10, also one written as 9/10."""
    if isinstance(value, str) and (written := _OUT_OF.fullmatch(value.strip())):
        return _BEST * float(written[1]) / (float(written[2] or _BEST) or _BEST)
    return number(value)


def _named(items: Sequence[object]) -> dict[int, float]:
    """Passage number to grade, of objects that each name a passage and its grade."""
    grades: dict[int, float] = {}
    for item in items:
        named = {name.lower(): value for name, value in fields(item).items()}
        n = next((_grade(named[name]) for name in _PASSAGE if name in named), None)
        grade = next((_grade(named[name]) for name in _RATED if name in named), None)
        if n is not None and grade is not None and grade >= 0:
            grades[int(n)] = grade
    return grades


def _grades(output: str, count: int) -> dict[int, float]:
    """Passage number to grade, of an object, a list of as many numbers, or lines such as `1: 7`."""
    value = leading_json(output) or read_json(output)
    if isinstance(value, list):
        listed = cast("list[object]", value)
        if grades := _named(listed):
            return grades
        items = [_grade(item) for item in listed]
        if len(items) == count and None not in items:
            return {n: item for n, item in enumerate(items, start=1) if item is not None and item >= 0}
    named = fields(cast("object", value))
    named = next((inner for inner in map(fields, named.values()) if inner), named)
    found = {name.strip(" []"): _grade(grade) for name, grade in named.items()}
    grades = {int(n): grade for n, grade in found.items() if n.isdecimal() and grade is not None}
    if grades:
        return {n: grade for n, grade in grades.items() if grade >= 0}
    return {int(n): float(grade) for n, grade in _PAIR.findall(output)}
