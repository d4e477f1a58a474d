"""Answers without a chat model: the sentences of the passages that say most about the question."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import ClassVar

from ragstone.errors import ModelUnavailable, ProviderError
from ragstone.generate.quotes import Candidate, parts_of, said_once, written
from ragstone.generate.visible import NO_ANSWER
from ragstone.language import language_of
from ragstone.messages import Language
from ragstone.protocols import Embedder
from ragstone.terms import analyze
from ragstone.trace import degrade
from ragstone.types import AnswerMode, Delta, Hit, Prompt

MAX_EMBEDDED = 12
"""Sentences embedded for one answer: about 0.4 s of one core with the local model."""

COVERAGE_WEIGHT = 0.1
"""What full coverage of the question's terms adds to a sentence's cosine."""

RANK_COST = 0.01
"""What each place of its passage in the ranking takes from a sentence."""

MARGIN = 0.02
"""Sentences this close to the best one are quoted with it."""

LEXICAL_RANK_COST = 0.05
LEXICAL_MARGIN = 0.1
"""The same on the scale of coverage, without a model."""

LEXICAL_LEAST: Mapping[Language, float] = {"en": 0.35, "zh": 0.22}
"""Coverage that is enough without cosines, by the question's language: Chinese pairs meet less often."""

_ASKING_ZH = re.compile(
    r"为什么|为何|是什么|什么|哪一|哪些|哪个|哪里|哪位|哪种|哪儿|哪|多少|多久|多长|多大|怎么样|怎么|怎样|如何"
    r"|是否|能否|可否|几(?!何|乎)|谁|吗|呢|请问|何时|何地|何处|何种|為什麼|為何|是什麼|什麼|多長|怎麼|怎樣|嗎|誰"
    r"|何時|何處|何種|幾(?!何|乎)|哪裡"
)
_ASKING_EN = frozenset(
    re.findall(
        r"\S+",
        "what who whom whose which when where why how many much did do does can could would should may might"
        " must i me my we our you your he she they them their his her there if about some any not no than"
        " then so but after before into between during up out been being had s t tell please give name",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relevance:
    """When passages are relevant enough to quote, on the scale of one embedding model.

    Quoted is when `best + coverage_weight * coverage + lead >= least`. `best` is the best
    cosine of question and passage, `coverage` (0 to 1) the share of the question's terms,
    weighed by rarity, that one passage holds, and `lead` how far `best` is above the
    median of the passages: e5 gives unrelated pairs high cosines, but nearly equal ones.
    `least` depends on the languages of the question and of the best passage, for the
    scale does. Of one or two passages the lead says nothing and `usual_lead` is taken.

    Without cosines, or for a model that was not measured, `LEXICAL_LEAST` decides.
    """

    least: Mapping[tuple[Language, Language], float]
    coverage_weight: float = 0.05
    usual_lead: float = 0.02

    def holds(self, question: str, passages: Sequence[Hit], coverage: float) -> bool:
        scored = [(cosine, hit) for hit in passages if (cosine := hit.on("cosine")) is not None]
        scored.sort(key=lambda one: -one[0])
        best, hit = scored[0]
        lead = best - scored[len(scored) // 2][0] if len(scored) > 2 else self.usual_lead
        languages = (language_of(question), language_of(hit.chunk.text))
        return best + self.coverage_weight * coverage + lead >= self.least[languages]


MEASURED: Mapping[str, Relevance] = {
    "multilingual-e5-small": Relevance(
        least={("en", "en"): 0.864, ("zh", "zh"): 0.885, ("zh", "en"): 0.838, ("en", "zh"): 0.822}
    )
}
"""By the first part of `Embedder.identity`. Measured in benchmarks/results/extractive.md."""


class ExtractiveGenerator:
    """The generator that quotes: one to `most` sentences, each with its marker [n].

    Sentences are weighed by the rare terms they share with the question and, with an
    `embedder`, by their similarity to it, which also carries questions in another
    language than the documents; a model that fails is done without. Nothing relevant:
    `<no-answer/>`.

    `relevance` replaces the rule measured for the embedder (`MEASURED`); see
    `benchmarks/results/extractive.md`.
    """

    mode: ClassVar[AnswerMode] = "extractive"

    def __init__(
        self,
        embedder: Embedder | None = None,
        *,
        most: int = 3,
        relevance: Relevance | None = None,
    ) -> None:
        self._embedder = embedder
        self._most = most
        self._relevance = relevance

    async def __call__(self, prompt: Prompt) -> AsyncIterator[Delta]:
        chosen = await self.choose(prompt)
        if not chosen:
            yield Delta(text=NO_ANSWER)
        before = None
        for candidate in chosen:
            yield Delta(text=written(candidate, before))
            before = candidate

    async def choose(self, prompt: Prompt) -> list[Candidate]:
        """The sentences to quote in reading order; empty when nothing is relevant."""
        question = question_terms(prompt.query.text)
        candidates, coverage = weighed(question, prompt.passages)
        if not candidates or not self._relevant(prompt, coverage):
            return []
        ranked, margin = await self._ranked(prompt.query.text, candidates)
        best = ranked[0]
        chosen = [one for one in ranked[: self._most] if best.score - one.score <= margin]
        order = {one.n: place for place, one in reversed(list(enumerate(chosen)))}
        return sorted(chosen, key=lambda one: (order[one.n], one.start))

    def _relevant(self, prompt: Prompt, coverage: float) -> bool:
        rule = self._relevance or self._measured()
        compared = any(hit.on("cosine") is not None for hit in prompt.passages)
        if rule is not None and compared:
            return rule.holds(prompt.query.text, prompt.passages, coverage)
        if compared and not _same_language(prompt):
            # Terms cannot tell, and the scale of this model's cosines is not known.
            return True
        return coverage >= LEXICAL_LEAST[language_of(prompt.query.text)]

    def _measured(self) -> Relevance | None:
        name = self._embedder.identity.split("/")[0] if self._embedder is not None else ""
        return MEASURED.get(name)

    async def _ranked(self, question: str, candidates: list[Candidate]) -> tuple[list[Candidate], float]:
        """Best first, and how close to the best is close.

        By coverage and the rank of the passage; with a model the first few by similarity.
        """
        scored = [replace(one, score=one.coverage - LEXICAL_RANK_COST * (one.n - 1)) for one in candidates]
        scored.sort(key=lambda one: -one.score)
        scored = said_once(scored)
        if self._embedder is None:
            return scored, LEXICAL_MARGIN
        near = scored[:MAX_EMBEDDED]
        try:
            similar = await self._similarities(self._embedder, question, near)
        except (ProviderError, ModelUnavailable):
            degrade("embedder_failed")
            return scored, LEXICAL_MARGIN
        ranked = [
            replace(one, score=similarity + COVERAGE_WEIGHT * one.coverage - RANK_COST * (one.n - 1))
            for one, similarity in zip(near, similar, strict=True)
        ]
        return sorted(ranked, key=lambda one: -one.score), MARGIN

    async def _similarities(
        self, embedder: Embedder, question: str, candidates: Sequence[Candidate]
    ) -> list[float]:
        asked = await embedder.embed_queries([question])
        texts = [_fitting(embedder, one.told) for one in candidates]
        told = await embedder.embed_documents(texts)
        return [float(value) for value in told.values @ asked.values[0]]


def question_terms(question: str) -> list[str]:
    """The terms a question asks about, without the words that only ask; each once."""
    bare = _ASKING_ZH.sub(" ", question)
    terms = list(dict.fromkeys(analyze(bare)))
    return [term for term in terms if term not in _ASKING_EN] or list(dict.fromkeys(analyze(question)))


def weighed(question: Sequence[str], passages: Sequence[Hit]) -> tuple[list[Candidate], float]:
    """Every sentence with its coverage, and the best coverage that one passage reaches."""
    found = [one for n, hit in enumerate(passages, start=1) for one in parts_of(n, hit)]
    terms = [frozenset(analyze(one.told)) for one in found]
    seen = Counter(term for held in terms for term in held)
    rarity = {term: log(1 + (len(found) + 0.5) / (seen[term] + 0.5)) for term in question}
    whole = sum(rarity.values()) or 1.0

    def share(held: frozenset[str]) -> float:
        return sum(weight for term, weight in rarity.items() if term in held) / whole

    candidates = [replace(one, coverage=share(held)) for one, held in zip(found, terms, strict=True)]
    together = [share(frozenset(analyze(f"{hit.title} {hit.chunk.embedding_text}"))) for hit in passages]
    return candidates, max(together, default=0.0)


def _fitting(embedder: Embedder, text: str) -> str:
    if len(text) <= embedder.max_tokens // 2:
        return text
    offsets = embedder.tokenizer.offsets(text)
    limit = embedder.max_tokens
    return text if len(offsets) <= limit else text[: offsets[limit - 1][1]]


def _same_language(prompt: Prompt) -> bool:
    asked = language_of(prompt.query.text)
    return any(language_of(hit.chunk.text) == asked for hit in prompt.passages)
