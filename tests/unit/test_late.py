"""Late interaction: tokens of a question against the kept signs of a passage's tokens."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from ragstone.late import passage_tokens, question_tokens, scores


def units(count: int, dimension: int = 384, seed: int = 0) -> NDArray[np.float32]:
    values = np.random.default_rng(seed).standard_normal((count, dimension))
    return (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("dimension", [384, 768, 97, 1])
def test_the_rotation_keeps_lengths_and_angles_and_one_bit_a_dimension(dimension: int) -> None:
    values = units(20, dimension)
    turned = question_tokens(values)
    np.testing.assert_allclose(turned @ turned.T, values @ values.T, atol=1e-5)
    assert passage_tokens(values).shape == (20, math.ceil(dimension / 8))


def test_a_passage_is_as_good_as_the_best_token_for_each_of_the_question() -> None:
    """A52: 384 signs say what 384 numbers said, but for a little noise."""
    question, others = units(6), units(40, seed=1)
    near = 0.6 * question + 0.8 * units(6, seed=2)
    passages = [others, np.concatenate([others, near[:3]]), np.concatenate([others, near]), question]
    exact = [float((question @ tokens.T).max(axis=1).mean()) for tokens in passages]
    found = scores(question_tokens(question), [passage_tokens(tokens) for tokens in passages])
    assert found.argsort().tolist() == [0, 1, 2, 3]
    # Of a unit vector in many dimensions the signs keep sqrt(2 / pi) of its length.
    np.testing.assert_allclose(found, np.array(exact) * math.sqrt(2 / math.pi), atol=0.06)


@pytest.mark.parametrize("dimension", [1, 8, 97, 384])
def test_no_score_is_above_one(dimension: int) -> None:
    """C28."""
    values = np.eye(1, dimension, dtype=np.float32)
    for question in (values, units(3, dimension), np.full((2, dimension), dimension**-0.5, np.float32)):
        same = scores(question_tokens(question), [passage_tokens(question)])
        assert 0 < same[0] <= 1


def test_what_has_no_tokens_has_no_score() -> None:
    question, nothing = question_tokens(units(2)), np.empty((0, 0), np.uint8)
    found = scores(question, [nothing, passage_tokens(units(3))])
    assert np.isnan(found).tolist() == [True, False]
    assert np.isnan(scores(question, [nothing])).all()
    assert np.isnan(scores(question[:0], [passage_tokens(units(3))])).all()
    assert len(scores(question, [])) == 0
