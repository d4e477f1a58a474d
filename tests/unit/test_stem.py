"""English stems: the forms of a word meet, other words stay apart."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.stem import stem


@pytest.mark.parametrize(
    "forms",
    [
        "connect connected connecting connection connections",
        "hop hopping hopped hops",
        "hope hoping hoped hopes",
        "city cities",
        "relational relate",
        "happy happiness",
        "run running runs",
        "die dies died dying",
        "organize organized organizer organization",
        "geologist geology",
        "hopeful hopefulness hopefully",
        "agree agreed",
        "study studies studied studying",
    ],
)
def test_the_forms_of_a_word_have_one_stem(forms: str) -> None:
    assert len({stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize(
    "words", ["news new", "universe university", "organ organic organize", "internal international", "us use"]
)
def test_other_words_stay_apart(words: str) -> None:
    assert len({stem(word) for word in words.split()}) == len(words.split())


@pytest.mark.parametrize("word", ["", "a", "is", "bus", "gas", "2024", "v2", "straße", "Übung", "x" * 90])
def test_short_foreign_and_odd_words_stay(word: str) -> None:
    assert stem(word) == word


@settings(deadline=None)
@given(st.text(alphabet="aeiouybdglnrstxz", min_size=1, max_size=14))
def test_a_stem_is_never_empty_nor_much_longer(word: str) -> None:
    assert 1 <= len(stem(word)) <= len(word) + 1
