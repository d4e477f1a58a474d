"""Several rankings to one, by chunk id (pure).

Every stage's score stays on the hit; the fused one is added behind them. Ties go by the
best single rank, then by the first ranking that held the hit. A full-text hit that
scores 0 shares no term with the question and is left out; a score that is no finite
number counts as the worst of its ranking.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ragstone.errors import InvalidStage
from ragstone.types import Hit, Score

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RRF_K = 60
"""Cormack, Clarke and Büttcher (SIGIR 2009): far ranks still count, near ones do not decide alone."""

WEIGHTS = (0.8, 0.2)
"""Dense and full text, for `weighted`."""

TEXT_WEIGHT = 1.0
"""How much a full match of words is worth, in cosine, beside meaning: measured with multilingual-e5-small,
whose cosines lie close together (docs/hybrid.md). A model that spreads them more may want more."""


@dataclass(slots=True)
class _Candidate:
    """One chunk while rankings are fused."""

    hit: Hit
    best_rank: int
    scores: tuple[Score, ...] = ()
    shares: list[float] = field(default_factory=list[float])
    value: float = 0.0


def reciprocal_rank(
    rankings: Sequence[Sequence[Hit]], *, k: float = RRF_K, weights: Sequence[float] | None = None
) -> list[Hit]:
    """Reciprocal rank fusion: the sum of weight / (k + rank) over the rankings, on the scale `rrf`.

    For several questions with several rankings each, see `two_stage`.

    Raises:
        InvalidStage: `k` below 0 or not finite, or weights that do not match the rankings.
    """
    if not (math.isfinite(k) and k >= 0):
        raise InvalidStage("fuse.k", value=k)
    checked = _checked_weights(weights if weights is not None else [1.0] * len(rankings), len(rankings))
    candidates: dict[str, _Candidate] = {}
    for ranking, weight in zip(rankings, checked, strict=True):
        for rank, hit in enumerate(_ranked(ranking), start=1):
            _add(candidates, hit, rank, weight / (k + rank))
    return _fused(candidates, "rrf")


def two_stage(
    per_query: Sequence[Sequence[Sequence[Hit]]],
    *,
    k: float = RRF_K,
    weights: Sequence[float] | None = None,
    query_weights: Sequence[float] | None = None,
) -> list[Hit]:
    """Reciprocal rank fusion of each question's rankings, then of the questions (row A62).

    `weights` are those of a question's rankings, `query_weights` those of the questions.

    Raises:
        InvalidStage: as `reciprocal_rank`.
    """
    fused = [reciprocal_rank(rankings, k=k, weights=weights) for rankings in per_query]
    return reciprocal_rank(fused, k=k, weights=query_weights)


def weighted(rankings: Sequence[Sequence[Hit]], weights: Sequence[float] = WEIGHTS) -> list[Hit]:
    """The weighted mean of each ranking's latest scores, on the scale `weighted`, from 0 to 1.

    Scores are scaled to the least and greatest of their ranking; where all are equal
    they count as 1. A ranking that does not hold a hit gives it 0.

    Raises:
        InvalidStage: weights that do not match the rankings, or are all 0.
    """
    checked = _checked_weights(weights, len(rankings))
    total = math.fsum(checked)
    if total == 0:
        raise InvalidStage("fuse.weights_zero")
    candidates: dict[str, _Candidate] = {}
    for ranking, weight in zip(rankings, checked, strict=True):
        hits = _ranked(ranking)
        for rank, (hit, value) in enumerate(zip(hits, _scaled(hits), strict=True), start=1):
            _add(candidates, hit, rank, weight * value)
    return _fused(candidates, "weighted", total)


def hybrid(rankings: Sequence[Sequence[Hit]], *, text_weight: float = TEXT_WEIGHT) -> list[Hit]:
    """Meaning and words: (cosine + text_weight * text^2) / (1 + text_weight), on the scale `hybrid`.

    The first ranking is by vector (scale `cosine`), the second by full text (scale `text`: the share
    of what the question's words could reach). Both scores mean the same for every question, so words
    count for much where a passage holds them and for next to nothing where it shares only a few, as
    in a paraphrase or another language. A hit that only the text found takes the last cosine.

    Raises:
        InvalidStage: not two rankings, or a weight below 0 or not finite.
    """
    if len(rankings) != 2:
        raise InvalidStage("fuse.weights_count", weights=2, rankings=len(rankings))
    _checked_weights([text_weight], 1)
    nearest, matching = (_ranked(ranking) for ranking in rankings)
    cosines = [hit.score for hit in nearest if math.isfinite(hit.score)]
    last = min(cosines, default=0.0)
    candidates: dict[str, _Candidate] = {}
    for rank, hit in enumerate(nearest, start=1):
        _add(candidates, hit, rank, hit.score if math.isfinite(hit.score) else last)
    for rank, hit in enumerate(matching, start=1):
        if hit.chunk.chunk_id not in candidates:
            _add(candidates, hit, rank, last)
        share = min(max(hit.score, 0.0), 1.0) if math.isfinite(hit.score) else 0.0
        _add(candidates, hit, rank, text_weight * share**2)
    return _fused(candidates, "hybrid", 1.0 + text_weight)


def with_tokens(hits: Sequence[Hit], similarities: Sequence[float]) -> list[Hit]:
    """Hits of `hybrid` in the order of (2 x hybrid + late) / 3, on the scale `late`.

    That is (cosine + text^2 + late) / 3 at the usual weight of text. `similarities` are those of
    `late.scores`; a hit without one (NaN) is taken to be like the mean of the others.
    """
    known = [value for value in similarities if math.isfinite(value)]
    usual = math.fsum(known) / len(known) if known else 0.0
    candidates: dict[str, _Candidate] = {}
    for rank, (hit, value) in enumerate(zip(hits, similarities, strict=True), start=1):
        _add(candidates, hit, rank, 2 * hit.score)
        _add(candidates, hit, rank, value if math.isfinite(value) else usual)
    return _fused(candidates, "late", 3.0)


def token_similarity(hit: Hit) -> float | None:
    """What `with_tokens` was given for the hit; None where its tokens were not compared."""
    late, hybrid = hit.on("late"), hit.on("hybrid")
    return None if late is None or hybrid is None else 3 * late - 2 * hybrid


def by_tokens(
    question: NDArray[np.generic], hits: Sequence[Hit], passages: Sequence[NDArray[np.generic] | None]
) -> list[Hit]:
    """`with_tokens` by `late.scores`; as they are where no passage has tokens."""
    import numpy as np

    from ragstone.late import scores

    none = np.empty((0, 0), np.uint8)
    held = [none if tokens is None else tokens.astype(np.uint8, copy=False) for tokens in passages]
    if not any(map(len, held)):
        return list(hits)
    return with_tokens(hits, scores(question.astype(np.float32, copy=False), held).tolist())


def concatenate(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """All hits by their latest score; of a chunk found twice the better score counts.

    Only for rankings on one scale. A hit without a score comes last.
    """
    candidates: dict[str, _Candidate] = {}
    for ranking in rankings:
        for rank, hit in enumerate(ranking, start=1):
            known = candidates.get(hit.chunk.chunk_id)
            if known is None:
                candidates[hit.chunk.chunk_id] = _Candidate(hit, rank, value=_value(hit))
                continue
            # The better one goes last: its score is the latest.
            known.hit = _merged(*((known.hit, hit) if _value(hit) > known.value else (hit, known.hit)))
            known.best_rank = min(known.best_rank, rank)
            known.value = max(known.value, _value(hit))
    return [
        candidate.hit
        if not candidate.hit.scores
        else candidate.hit.scored(replace(candidate.hit.scores[-1], stage="fuse", rank=rank))
        for rank, candidate in enumerate(_in_order(candidates), start=1)
    ]


def _checked_weights(weights: Sequence[float], count: int) -> list[float]:
    if len(weights) != count:
        raise InvalidStage("fuse.weights_count", weights=len(weights), rankings=count)
    for weight in weights:
        if not (math.isfinite(weight) and weight >= 0):
            raise InvalidStage("fuse.weight", value=weight)
    return list(weights)


def _value(hit: Hit) -> float:
    """The latest score; minus infinity where there is none or it is not finite."""
    return hit.score if hit.scores and math.isfinite(hit.score) else -math.inf


def _ranked(ranking: Sequence[Hit]) -> list[Hit]:
    """The hits that count, each chunk once, those without a finite score at the end."""
    hits: dict[str, Hit] = {}
    broken: list[Hit] = []
    for hit in ranking:
        latest = hit.scores[-1] if hit.scores else None
        if latest is not None and not math.isfinite(latest.value):
            broken.append(hit)
        elif latest is None or latest.value != 0 or latest.scale != "text":
            hits.setdefault(hit.chunk.chunk_id, hit)
    for hit in broken:
        hits.setdefault(hit.chunk.chunk_id, hit)
    return list(hits.values())


def _scaled(hits: Sequence[Hit]) -> list[float]:
    """The scores as 0 to 1; halved first, so that their difference stays finite."""
    finite = [hit.score / 2 for hit in hits if math.isfinite(hit.score)]
    if not finite:
        return [0.0] * len(hits)
    least, greatest = min(finite), max(finite)
    span = greatest - least
    scaled: list[float] = []
    for hit in hits:
        if not math.isfinite(hit.score):
            scaled.append(0.0)
        else:
            scaled.append((hit.score / 2 - least) / span if span > 0 else 1.0)
    return scaled


def _add(candidates: dict[str, _Candidate], hit: Hit, rank: int, share: float) -> None:
    known = candidates.get(hit.chunk.chunk_id)
    if known is None:
        candidates[hit.chunk.chunk_id] = _Candidate(hit, rank, hit.scores, [share])
        return
    known.hit, known.scores = hit, _joined(known.scores, hit.scores)
    known.best_rank = min(known.best_rank, rank)
    known.shares.append(share)


def _merged(first: Hit, second: Hit) -> Hit:
    """One hit with the scores of both, those of `second` last."""
    return second.with_scores(_joined(first.scores, second.scores))


def _joined(first: tuple[Score, ...], second: tuple[Score, ...]) -> tuple[Score, ...]:
    return (*[score for score in first if score not in second], *second)


def _in_order(candidates: dict[str, _Candidate]) -> list[_Candidate]:
    # Sorting is stable: what is equal stays in the order first seen.
    return sorted(candidates.values(), key=lambda candidate: (-candidate.value, candidate.best_rank))


def _fused(candidates: dict[str, _Candidate], scale: str, whole: float = 1.0) -> list[Hit]:
    for candidate in candidates.values():
        # Plain addition would make near-ties depend on the order of the rankings.
        candidate.value = math.fsum(candidate.shares) / whole
    return [
        candidate.hit.with_scores(
            (*candidate.scores, Score(stage="fuse", scale=scale, value=candidate.value, rank=rank))
        )
        for rank, candidate in enumerate(_in_order(candidates), start=1)
    ]
