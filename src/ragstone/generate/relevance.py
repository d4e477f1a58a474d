"""When passages say enough about a question to be quoted (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragstone.fuse import token_similarity
from ragstone.language import language_of
from ragstone.messages import Language
from ragstone.terms import folded
from ragstone.types import Hit

# Part numbers, error codes, levels: E31, AB-1203/7. Q3 and H1 are times of a year, written in many ways.
_IDENTIFIER = re.compile(r"(?<![a-z0-9])(?![qh][1-4]\b)[a-z]{1,6}[-_]?\d[a-z0-9]*(?:[-_/][a-z0-9]+)*")
_JOINTS = re.compile(r"[\s_/-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Relevance:
    """When passages are relevant enough to quote, on the scale of one embedding model.

    A passage is relevant when `sentence + lead + token_weight * (tokens + token_lead)` is at
    least `least`. `sentence` is the best of its sentences (cosine, and a little for the terms
    it shares with the question); `lead` how far the passage's own cosine is above the median
    of the passages: e5 gives unrelated pairs high cosines, but nearly equal ones; `tokens`
    and `token_lead` the same of the late interaction (docs/hybrid.md). `least` depends on the
    languages of question and passage, for the scale does.

    Of one or two passages the leads say nothing and `usual_leads` are taken; `usual_tokens`
    stands for tokens that were not compared.
    """

    least: Mapping[tuple[Language, Language], float]
    token_weight: float = 1 / 3
    usual_tokens: float = 0.31
    usual_leads: tuple[float, float] = (0.015, 0.04)

    def surplus(
        self, question: str, passages: Sequence[Hit], similar: Mapping[int, float]
    ) -> dict[int, float]:
        """How far each passage is above what is enough; `similar`: its best sentence, by its number."""
        leads = _above_median([hit.on("cosine") for hit in passages], self.usual_leads[0])
        tokens = [token_similarity(hit) for hit in passages]
        known = [value for value in tokens if value is not None]
        token_leads = _above_median(tokens, self.usual_leads[1])
        asked = language_of(question)
        found: dict[int, float] = {}
        for n, sentence in similar.items():
            own = tokens[n - 1]
            value = (min(known) if own is None else own) if known else self.usual_tokens
            reached = sentence + leads[n - 1] + self.token_weight * (value + token_leads[n - 1])
            found[n] = reached - self.least[asked, language_of(passages[n - 1].chunk.text)]
        return found

    def handicap(self, asked: Language, told: Language) -> float:
        """How much lower sentences of language `told` score than those of the question's language."""
        return self.least[asked, asked] - self.least[asked, told]


MEASURED: Mapping[str, Relevance] = {
    "multilingual-e5-small": Relevance(
        least={("en", "en"): 0.995, ("zh", "zh"): 1.02, ("zh", "en"): 0.95, ("en", "zh"): 0.95}
    )
}
"""By the first part of `Embedder.identity`. Measured in benchmarks/results/extractive.md."""


def identifiers(question: str) -> list[str]:
    return [_joined(found[0]) for found in _IDENTIFIER.finditer(folded(question))]


def names(text: str, wanted: Sequence[str]) -> bool:
    """Whether the text holds every identifier, however it is joined.

    Texts about E31 are near to a question about E99, for a model and for words alike.
    """
    joined = _joined(folded(text)) if wanted else ""
    return all(re.search(re.escape(one) + r"(?!\d)", joined) for one in wanted)


def _joined(text: str) -> str:
    return _JOINTS.sub("", text)


def _above_median(values: Sequence[float | None], usual: float) -> list[float]:
    """How far each is above the median; unknown ones count as the least of the known."""
    known = sorted((value for value in values if value is not None), reverse=True)
    if len(values) < 3 or not known:
        return [usual] * len(values)
    filled = [known[-1] if value is None else value for value in values]
    median = sorted(filled, reverse=True)[len(filled) // 2]
    return [value - median for value in filled]
