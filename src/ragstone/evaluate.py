"""Retrieval metrics over a dataset folder.

    corpus.jsonl    {"id", "title", "text"}
    queries.jsonl   {"id", "text"}, and perhaps "history": [{"role", "content"}, ...]
    qrels.tsv       query-id, corpus-id, score; a header line

The layout of BEIR (Thakur et al., 2021) with short names. Metrics are computed by
pytrec_eval, the code of trec_eval, over distinct corpus ids: the best chunk stands for its
document.
"""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, cast, get_args

from ragstone.errors import InputError, MissingExtra, SourceNotFound
from ragstone.types import MAX_TOP_K, Hit, Message, Role

DEPTH = 10
"""How many documents of a ranking count."""

_FIRST_TOP_K = 20
_SEED = 20_240_501

METRICS = {
    "hit@1": "success_1",
    "recall@1": "recall_1",
    "recall@5": "recall_5",
    "recall@10": "recall_10",
    "mrr@10": "recip_rank",
    "ndcg@10": "ndcg_cut_10",
}
"""Ours -> the name in trec_eval. Rankings end at 10, so `recip_rank` is mrr@10."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    corpus_id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question. A blank `text`, as some datasets have, finds nothing and counts."""

    query_id: str
    text: str
    history: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Passages, the questions that have a relevant one, and query id -> corpus id -> relevance."""

    passages: tuple[Passage, ...]
    questions: tuple[Question, ...]
    relevant: Mapping[str, Mapping[str, int]]

    def first(self, limit: int) -> Dataset:
        """With the first `limit` questions of a shuffle that is the same every time."""
        shuffled = list(self.questions)
        random.Random(_SEED).shuffle(shuffled)
        return replace(self, questions=tuple(shuffled[:limit]))

    @property
    def missing(self) -> int:
        """How many relevant ids are in no passage: nothing can find them."""
        known = {passage.corpus_id for passage in self.passages}
        wanted = {item for question in self.questions for item in self.relevant[question.query_id]}
        return len(wanted - known)


def read_dataset(folder: Path, *, corpus: Path | None = None) -> Dataset:
    """The dataset in `folder`; its passages from the file `corpus` where that is given.

    Raises:
        SourceNotFound: no such folder or file.
        InputError: a line that cannot be read, an id that is there twice, or no question
            with a relevant passage. Says the file and the line.
    """
    if not folder.is_dir():
        raise SourceNotFound("evaluate.no_folder", path=folder)
    if corpus is None:
        corpus = folder / "corpus.jsonl"
        if not corpus.is_file():
            raise SourceNotFound("evaluate.no_corpus", path=folder)
    return replace(read_questions(folder), passages=_passages(corpus))


def read_questions(folder: Path) -> Dataset:
    """Questions and what answers them, without passages: those are in a base already.

    Raises as `read_dataset`.
    """
    if not folder.is_dir():
        raise SourceNotFound("evaluate.no_folder", path=folder)
    questions = _questions(folder / "queries.jsonl")
    relevant = _relevant(folder / "qrels.tsv")
    counted = tuple(item for item in questions if item.query_id in relevant)
    if not counted:
        raise InputError("evaluate.no_questions", path=folder)
    return Dataset(passages=(), questions=counted, relevant=relevant)


def _passages(path: Path) -> tuple[Passage, ...]:
    found = tuple(
        Passage(
            corpus_id=_text(row, "id", path, number),
            title=_optional(row, "title", path, number),
            text=_optional(row, "text", path, number),
        )
        for number, row in _rows(path)
    )
    if not found:
        raise InputError("evaluate.empty", path=path)
    return found


def _questions(path: Path) -> list[Question]:
    return [
        Question(
            query_id=_text(row, "id", path, number),
            text=_text(row, "text", path, number, blank=True),
            history=tuple(_history(row, path, number)),
        )
        for number, row in _rows(path)
    ]


def _history(row: Mapping[str, object], path: Path, number: int) -> Iterator[Message]:
    given = row.get("history")
    for item in cast("list[object]", given if isinstance(given, list) else [given] * bool(given)):
        fields = cast("dict[str, object]", item if isinstance(item, dict) else {})
        role, content = fields.get("role"), fields.get("content")
        if role not in get_args(Role) or not isinstance(content, str):
            raise InputError("evaluate.field", path=path, line=number, name="history")
        yield Message(role=cast(Role, role), content=content)


def _relevant(path: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for number, line in _lines(path):
        fields = line.split("\t")
        if len(fields) != 3:
            raise InputError("evaluate.columns", path=path, line=number, count=len(fields))
        query_id, corpus_id, score = (item.strip() for item in fields)
        try:
            relevance = int(score)
        except ValueError:
            if number == 1:  # the header
                continue
            raise InputError("evaluate.score", path=path, line=number, value=score[:40]) from None
        if relevance > 0:
            found.setdefault(query_id, {})[corpus_id] = relevance
    return found


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """(line number, object) of a file of JSON lines; every id once."""
    seen: set[object] = set()
    for number, line in _lines(path):
        try:
            row: object = json.loads(line)
        except ValueError as error:
            raise InputError("evaluate.json", path=path, line=number, reason=error) from error
        if not isinstance(row, dict):
            raise InputError("evaluate.json", path=path, line=number, reason=type(row).__name__)
        fields = cast("dict[str, object]", row)
        name = str(fields.get("id"))
        if name in seen:
            raise InputError("evaluate.twice", path=path, line=number, name=name[:80])
        seen.add(name)
        yield number, fields


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number, line) of every line that is not blank."""
    if not path.is_file():
        raise SourceNotFound("evaluate.no_file", path=path)
    try:
        with path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InputError("evaluate.encoding", path=path) from error


def _text(row: Mapping[str, object], name: str, path: Path, number: int, *, blank: bool = False) -> str:
    value = row.get(name)
    if name == "id" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not (blank or value.strip()):
        raise InputError("evaluate.field", path=path, line=number, name=name)
    return value


def _optional(row: Mapping[str, object], name: str, path: Path, number: int) -> str:
    if row.get(name) in (None, ""):
        return ""
    value = row[name]
    if not isinstance(value, str):
        raise InputError("evaluate.field", path=path, line=number, name=name)
    return value


# --- ranking and measuring ---------------------------------------------------------


async def ranking(
    search: Callable[[int], Awaitable[Sequence[Hit]]], corpus_id: Callable[[Hit], str], *, depth: int = DEPTH
) -> list[str]:
    """The first `depth` distinct corpus ids; `search(top_k)` is asked for more until there are so many."""
    top_k = _FIRST_TOP_K
    while True:
        hits = await search(top_k)
        ids = list(dict.fromkeys(corpus_id(hit) for hit in hits))[:depth]
        if len(ids) == depth or len(hits) < top_k or top_k >= MAX_TOP_K:
            return ids
        top_k = min(2 * top_k, MAX_TOP_K)


class _Evaluator(Protocol):
    def evaluate(self, scores: Mapping[str, Mapping[str, float]]) -> Mapping[str, Mapping[str, float]]: ...


def measures(
    rankings: Mapping[str, Sequence[str]], relevant: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, float]]:
    """Query id -> metric -> value, for every query of `rankings` (query id -> corpus ids, best first).

    Raises:
        MissingExtra: pytrec-eval-terrier is not installed.
    """
    try:
        import pytrec_eval  # pyright: ignore[reportMissingTypeStubs]
    except ModuleNotFoundError as error:
        raise MissingExtra("core.missing_extra", feature="ragstone eval", extra="eval") from error
    evaluator_type = cast("Callable[..., _Evaluator]", cast(Any, pytrec_eval).RelevanceEvaluator)
    wanted = {query_id: dict(relevant[query_id]) for query_id in rankings}
    evaluator = evaluator_type(wanted, {"success.1", "recall.1,5,10", "recip_rank", "ndcg_cut.10"})
    # trec_eval sorts by score, so ranks become scores.
    scored = {
        query_id: {name: float(DEPTH - rank) for rank, name in enumerate(ids[:DEPTH])}
        for query_id, ids in rankings.items()
    }
    values = evaluator.evaluate(scored)
    return {
        query_id: {ours: values.get(query_id, {}).get(name, 0.0) for ours, name in METRICS.items()}
        for query_id in rankings
    }


def means(values: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The mean of each metric over all queries."""
    return {name: sum(row[name] for row in values.values()) / len(values) for name in METRICS}
