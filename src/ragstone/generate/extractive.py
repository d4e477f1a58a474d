"""Answers without a chat model: the sentences of the passages that say most about the question."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from math import log
from typing import ClassVar

from ragstone.errors import ModelUnavailable, ProviderError
from ragstone.generate.quotes import Candidate, parts_of, said_once, written
from ragstone.generate.relevance import MEASURED, Relevance, identifiers, names
from ragstone.generate.visible import NO_ANSWER
from ragstone.language import language_of
from ragstone.messages import Language
from ragstone.protocols import Embedder
from ragstone.terms import analyze
from ragstone.trace import degrade
from ragstone.types import AnswerMode, Delta, Hit, Prompt

MAX_EMBEDDED = 16
"""Sentences embedded for one answer: about 0.2 s of one core with the local model."""

COVERAGE_WEIGHT = 0.05
"""What full coverage of the question's terms adds to a sentence's cosine."""

PASSAGE_WEIGHT = 0.3
"""What its passage's surplus (`Relevance.surplus`) counts for a sentence."""

RANK_COST = 0.01
"""For a model that was not measured: what each place of its passage in the ranking takes from a sentence."""

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


class ExtractiveGenerator:
    """The generator that quotes: one to `most` sentences, each with its marker [n].

    Sentences are weighed by the rare terms they share with the question and, with an
    `embedder`, by their similarity to it, which also carries questions in another
    language than the documents; a model that fails is done without. Nothing relevant, or no
    passage with the identifiers that the question names: `<no-answer/>`.

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
        question = prompt.query.text
        found, coverage = weighed(question_terms(question), prompt.passages)
        rule = self._rule(prompt)
        ranked = said_once(_by_terms(_named(found, prompt), _costs(rule, prompt)))
        similar = await self._similarities(question, ranked[:MAX_EMBEDDED])
        if similar and rule is not None:
            ranked = _by_rule(rule, prompt, ranked, similar)
        elif not _by_words(prompt, coverage):
            ranked = []
        elif similar:
            ranked = _by_similarity(ranked, similar, [-RANK_COST * (one.n - 1) for one in ranked])
        margin = MARGIN if similar else LEXICAL_MARGIN
        chosen = [one for one in ranked[: self._most] if ranked[0].score - one.score <= margin]
        order = {one.n: place for place, one in reversed(list(enumerate(chosen)))}
        return sorted(chosen, key=lambda one: (order[one.n], one.start))

    def _rule(self, prompt: Prompt) -> Relevance | None:
        """The rule for cosines, where there are any."""
        if self._embedder is None or not _compared(prompt):
            return None
        return self._relevance or MEASURED.get(self._embedder.identity.split("/")[0])

    async def _similarities(self, question: str, candidates: Sequence[Candidate]) -> list[float]:
        """Cosines of the question and each candidate; none without a model that works."""
        embedder = self._embedder
        if embedder is None or not candidates:
            return []
        try:
            asked = await embedder.embed_queries([question])
            told = await embedder.embed_documents([_fitting(embedder, one.told) for one in candidates])
        except (ProviderError, ModelUnavailable):
            degrade("embedder_failed")
            return []
        return [float(value) for value in told.values @ asked.values[0]]


def question_terms(question: str) -> list[str]:
    """The terms a question asks about, without the words that only ask; each once."""
    bare = _ASKING_ZH.sub(" ", question)
    terms = list(dict.fromkeys(analyze(bare)))
    return [term for term in terms if term not in _ASKING_EN] or list(dict.fromkeys(analyze(question)))


def weighed(question: Sequence[str], passages: Sequence[Hit]) -> tuple[list[Candidate], float]:
    """Every sentence with its coverage, and the best coverage that one passage reaches."""
    found = [one for n, hit in enumerate(passages, start=1) for one in parts_of(n, hit)]
    terms = [frozenset(analyze(f"{passages[one.n - 1].chunk.context} {one.told}")) for one in found]
    seen = Counter(term for held in terms for term in held)
    rarity = {term: log(1 + (len(found) + 0.5) / (seen[term] + 0.5)) for term in question}
    whole = sum(rarity.values()) or 1.0

    def share(held: frozenset[str]) -> float:
        return sum(weight for term, weight in rarity.items() if term in held) / whole

    candidates = [replace(one, coverage=share(held)) for one, held in zip(found, terms, strict=True)]
    together = [share(frozenset(analyze(f"{hit.title} {hit.chunk.embedding_text}"))) for hit in passages]
    return candidates, max(together, default=0.0)


def _named(found: Sequence[Candidate], prompt: Prompt) -> list[Candidate]:
    """Those of passages that hold the question's identifiers; of a table only the rows that do, if any."""
    wanted = identifiers(prompt.query.text)
    texts = [f"{hit.title} {hit.chunk.embedding_text}" for hit in prompt.passages]
    holding = {n for n, text in enumerate(texts, start=1) if names(text, wanted)}
    rows = {(one.n, one.header) for one in found if one.header and names(one.text, wanted)}
    return [
        one
        for one in found
        if one.n in holding and ((one.n, one.header) not in rows or names(one.text, wanted))
    ]


def _by_terms(found: Sequence[Candidate], costs: Sequence[float]) -> list[Candidate]:
    scored = [replace(one, score=one.coverage - costs[one.n - 1]) for one in found]
    return sorted(scored, key=lambda one: -one.score)


def _costs(rule: Relevance | None, prompt: Prompt) -> list[float]:
    """What a sentence loses for its passage before sentences are compared, on the scale of coverage."""
    passages = prompt.passages
    if rule is None:
        return [LEXICAL_RANK_COST * place for place in range(len(passages))]
    own = {n: hit.on("cosine") or 0.0 for n, hit in enumerate(passages, start=1)}
    surplus = rule.surplus(prompt.query.text, passages, own)
    return [-PASSAGE_WEIGHT / COVERAGE_WEIGHT * surplus[n] for n in own]


def _by_similarity(
    found: Sequence[Candidate], similar: Sequence[float], more: Sequence[float]
) -> list[Candidate]:
    """The candidates that were compared, best first."""
    scored = [
        replace(one, score=similarity + COVERAGE_WEIGHT * one.coverage + added)
        for one, similarity, added in zip(found, similar, more, strict=False)
    ]
    return sorted(scored, key=lambda one: -one.score)


def _by_rule(
    rule: Relevance, prompt: Prompt, found: Sequence[Candidate], similar: Sequence[float]
) -> list[Candidate]:
    """The candidates that were compared, of relevant passages, best first."""
    best: dict[int, float] = {}
    for one, similarity in zip(found, similar, strict=False):
        best[one.n] = max(similarity + COVERAGE_WEIGHT * one.coverage, best.get(one.n, 0.0))
    question = prompt.query.text
    surplus = rule.surplus(question, prompt.passages, best)
    asked = language_of(question)
    told: dict[int, Language] = {n: language_of(prompt.passages[n - 1].chunk.text) for n in surplus}
    more = [
        PASSAGE_WEIGHT * surplus[one.n] + rule.handicap(asked, told[one.n]) for one in found[: len(similar)]
    ]
    return [one for one in _by_similarity(found, similar, more) if surplus[one.n] >= 0]


def _by_words(prompt: Prompt, coverage: float) -> bool:
    """Whether the passages are relevant, by terms alone."""
    if _compared(prompt) and not _same_language(prompt):
        # Terms cannot tell, and the scale of this model's cosines is not known.
        return True
    return coverage >= LEXICAL_LEAST[language_of(prompt.query.text)]


def _compared(prompt: Prompt) -> bool:
    return any(hit.on("cosine") is not None for hit in prompt.passages)


def _fitting(embedder: Embedder, text: str) -> str:
    if len(text) <= embedder.max_tokens // 2:
        return text
    offsets = embedder.tokenizer.offsets(text)
    limit = embedder.max_tokens
    return text if len(offsets) <= limit else text[: offsets[limit - 1][1]]


def _same_language(prompt: Prompt) -> bool:
    asked = language_of(prompt.query.text)
    return any(language_of(hit.chunk.text) == asked for hit in prompt.passages)
