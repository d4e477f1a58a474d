"""Text to terms: the same for documents and questions, in Chinese and English."""

from __future__ import annotations

import unicodedata

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
        ("snake_case and CamelCase", ["snakecase", "snake", "case", "camelcas"]),
        ("version 3.14", ["version", "3.14", "3", "14"]),
        ("Ｆｕｌｌ ｗｉｄｔｈ １２３", ["full", "width", "123"]),
        ("Straße ΣΊΣΥΦΟΣ", ["strass", "σίσυφοσ"]),
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
        # Traditional and Simplified Chinese are one.
        ("臺灣後來的發展", ["台湾", "湾后", "后来", "来的", "的发", "发展"]),
        ("台湾后来的发展", ["台湾", "湾后", "后来", "来的", "的发", "发展"]),
        # The forms of an English word are one.
        ("installing Installed installs", ["instal", "instal", "instal"]),
        ("the city's cities", ["citi", "citi"]),
        # What is written as one whole is found as one, and by its parts.
        ("AB-1203/7", ["ab12037", "ab", "1203", "7"]),
        ("e-mail", ["email", "e", "mail"]),
        ("info@example.org", ["info@example.org", "info", "exampl", "org"]),
        ("1/2 2024-05-31", ["1/2", "1", "2", "2024-05-31", "2024", "05", "31"]),
        ("C++, C# and .NET", ["c++", "c", "c#", "c", ".net", "net"]),
        ("使用C++编程", ["使用", "c++", "c", "编程"]),
        ("v2.0.1", ["v2.0.1", "v2", "0", "1"]),
        ("end. Next #tag - dash", ["end", "next", "tag", "dash"]),
        ("WHO guidelines", ["who", "guidelin"]),
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
    assert analyze(text) == terms
    assert analyze(unicodedata.normalize("NFD", text)) == analyze(unicodedata.normalize("NFC", text))
    assert set(analyze(f"{text} {text}")) == set(terms)
