"""Late interaction: the tokens of a question against the tokens of a passage (pure).

ColBERT's MaxSim (Khattab and Zaharia, SIGIR 2020): each token of the question is compared
with every token of the passage, and the best cosine of each counts. Of a passage's tokens
only the signs are kept, after a rotation that spreads what a few axes hold over all of them:
one bit a dimension, 48 bytes a token of 384 dimensions. A number of the question keeps two
bits; the error averages out over dimensions and tokens (docs/hybrid.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def question_tokens(units: NDArray[np.float32]) -> NDArray[np.float32]:
    """Unit vectors of a question's tokens, (tokens, dimension), as `scores` takes them."""
    return _rotated(units)


def passage_tokens(units: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The signs of a passage's tokens: (tokens, dimension / 8 rounded up), eight a byte."""
    return np.packbits(_rotated(units) > 0, axis=1)


def scores(question: NDArray[np.float32], passages: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
    """How well each passage holds what the question's tokens mean: about 0 to 0.8, NaN without tokens."""
    found = np.full(len(passages), np.nan, np.float32)
    held = [place for place, tokens in enumerate(passages) if len(tokens)]
    if not held or not len(question):
        return found
    cosines = _cosines(question, np.concatenate([passages[place] for place in held]))
    starts = np.cumsum([0, *(len(passages[place]) for place in held[:-1])])
    # Rounded numbers can come out above 1.
    found[held] = np.minimum(np.maximum.reduceat(cosines, starts, axis=1).mean(axis=0), 1.0)
    return found


def _cosines(question: NDArray[np.float32], packed: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Cosines of the question's tokens and signs, (tokens, rows), by counting bits.

    A number of the question becomes one of four levels, -3, -1, 1 and 3 halves of a step that
    is about its deviation (Max, 1960, for the normal distribution): twice one sign plus another.
    """
    dimension = question.shape[1]
    deviation = np.sqrt((question**2).mean(axis=1, keepdims=True))
    positive = question > 0
    planes = [
        _words(np.packbits(plane, axis=1)) for plane in (positive, (np.abs(question) > deviation) == positive)
    ]
    rows = np.ascontiguousarray(_words(packed).T)
    differing, bits = np.empty_like(rows), np.empty(rows.shape, np.uint8)
    counts = np.zeros((len(question), len(packed)), np.uint16)
    for plane, weight in zip(planes, (2, 1), strict=True):
        for token, words in enumerate(plane):
            np.bitwise_count(np.bitwise_xor(rows, words[:, None], out=differing), out=bits)
            counts[token] += weight * np.add.reduce(bits, axis=0, dtype=np.uint16)
    return (3 * dimension - 2 * counts.astype(np.float32)) * (0.498 * deviation / math.sqrt(dimension))


def _words(packed: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Rows of bytes as rows of 64 bits, filled up with zeros."""
    missing = -packed.shape[1] % 8
    filled = np.pad(packed, ((0, 0), (0, missing))) if missing else np.ascontiguousarray(packed)
    return filled.view(np.uint64)


def _rotated(units: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same rotation always: alternating signs, then cosine transforms along both sides of a rectangle.

    A product of two small matrices costs a ninth of one large one.
    """
    count, dimension = units.shape
    flips, left, right = _rotation(dimension)
    rectangles = (units * flips).reshape(count, left.shape[0], right.shape[0])
    return np.ascontiguousarray((left @ rectangles @ right).reshape(count, dimension), dtype=np.float32)


@lru_cache
def _rotation(dimension: int) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    rows = next(size for size in range(math.isqrt(dimension), 0, -1) if dimension % size == 0)
    # Any signs without a pattern do: those of sin(n^2) are the same on every machine.
    flips = np.where(np.sin(np.arange(1.0, dimension + 1) ** 2) > 0, 1.0, -1.0).astype(np.float32)
    return flips, _waves(rows), _waves(dimension // rows)


def _waves(size: int) -> NDArray[np.float32]:
    """The orthogonal matrix of the discrete cosine transform."""
    places = np.arange(size)
    matrix = math.sqrt(2 / size) * np.cos(math.pi * (places[:, None] + 0.5) * places / size)
    matrix[:, 0] /= math.sqrt(2)
    return matrix.astype(np.float32)
