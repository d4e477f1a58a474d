"""Text to terms: the same for documents and questions, in Chinese and English."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.terms import MAX_TERM_LENGTH, analyze


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        (" \n\t.,;!?，。", []),
        ("Hello, World", ["hello", "world"]),
        ("The cat is on a mat of IT", ["cat", "a", "mat", "it"]),
        ("snake_case and CamelCase", ["snake", "case", "camelcase"]),
        ("version 3.14", ["version", "3", "14"]),
        ("Ｆｕｌｌ ｗｉｄｔｈ １２３", ["full", "width", "123"]),
        ("Straße ΣΊΣΥΦΟΣ", ["strasse", "σίσυφοσ"]),
        ("cafe\u0301 café", ["café", "café"]),
        ("soft\u00adhyphen zero\u200dwidth", ["softhyphen", "zerowidth"]),
        ("熊猫", ["熊猫"]),
        ("大熊猫吃竹子", ["大熊", "熊猫", "猫吃", "吃竹", "竹子"]),
        ("猫", ["猫"]),
        ("A股上涨2024年", ["a", "股上", "上涨", "2024", "年"]),
        ("ひらがな", ["ひら", "らが", "がな"]),
        ("한국어", ["한국", "국어"]),
        ("𠮷野家", ["𠮷野", "野家"]),
        ("हिन्दी", ["हनद"]),
        ("alpha alpha", ["alpha", "alpha"]),
    ],
)
def test_terms_of(text: str, terms: list[str]) -> None:
    assert analyze(text) == terms


def test_a_very_long_run_is_cut_the_same_everywhere() -> None:
    assert analyze("x" * 5_000) == ["x" * MAX_TERM_LENGTH]


@settings(deadline=None)
@given(st.text(max_size=200))
def test_terms_fit_a_text_index_and_are_stable(text: str) -> None:
    terms = analyze(text)
    assert all(0 < len(term.encode("utf-8", "surrogatepass")) <= 2_046 for term in terms)
    assert not any(char.isspace() or char in "'\\\x00" for term in terms for char in term)
    assert analyze(" ".join(terms)) == terms
