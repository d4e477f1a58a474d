"""The unigram tokenizer over a small vocabulary: what it cuts, and where in the original text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.embed.tokens import SPACE, UnigramTokenizer
from ragstone.split.sizes import Tokens

WORDS = {
    SPACE: -4.0,
    f"{SPACE}find": -3.0,
    f"{SPACE}fine": -5.0,
    "fin": -6.0,
    "e": -5.0,
    "ing": -3.0,
    "é": -6.0,
    "检": -6.0,
    "索": -6.0,
    "检索": -7.0,
    "a": -6.0,
    "b": -6.0,
    "ガ": -6.0,
    ",": -3.0,
}
NAMES = list(WORDS)
UNKNOWN = 99


@pytest.fixture(scope="module")
def tokenizer() -> UnigramTokenizer:
    return UnigramTokenizer(
        pieces={name: index for index, name in enumerate(NAMES)},
        scores=list(WORDS.values()),
        unknown=UNKNOWN,
        spaces="\u200b\u2581\ufffd",
        dropped="\x01\x7f",
    )


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.sampled_from([*"ab,é检索 \n", "e\u0301", "\u00b4", "\u3000", "\u200b", "\x01", "  ", "find", "ｶﾞ"])
    ).map("".join),
    st.data(),
)
def test_a_stretch_is_counted_from_its_words_as_from_its_text(
    tokenizer: UnigramTokenizer, text: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assert Tokens(text, tokenizer).exact(start, end) == tokenizer.count(text[start:end])


def pieces(tokenizer: UnigramTokenizer, text: str) -> list[str]:
    return [NAMES[token] if token != UNKNOWN else "?" for token in tokenizer.ids(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("finding", [f"{SPACE}find", "ing"]),
        ("fine", [f"{SPACE}fine"]),
        ("检索", [SPACE, "检索"]),
        ("  ab \n\n\u200b a ", [SPACE, "a", "b", SPACE, "a"]),
        ("a\x00\x01b", [SPACE, "a", "b"]),
        ("ﬁne", [f"{SPACE}fine"]),
        ("ｆｉｎｅ，", [f"{SPACE}fine", ","]),
        ("e\u0301", [SPACE, "é"]),
        ("e\x01\u0301", [SPACE, "é"]),
        ("ｶﾞ", [SPACE, "ガ"]),
        ("a\ud800b", [SPACE, "a", SPACE, "b"]),
        ("zzz", [SPACE, "?"]),
        ("zaz", [SPACE, "?", "a", "?"]),
        ("", []),
        (" \x00\u200b\ufffd", []),
    ],
)
def test_a_text_is_normalised_and_cut_into_its_likeliest_pieces(
    tokenizer: UnigramTokenizer, text: str, expected: list[str]
) -> None:
    assert pieces(tokenizer, text) == expected


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("finding  fine", ["find", "ing", "fine"]),
        ("ﬁne a", ["ﬁne", " ", "a"]),
        ("a，检索", ["", "a", "，", "检索"]),
        ("e\u0301e\u0301", ["", "e\u0301", "e\u0301"]),
        ("x\nｶﾞ", ["", "x", "\n", "ｶﾞ"]),
        ("a\x00b", ["", "a", "b"]),
        ("и\u0306 e\u0301", ["", "и\u0306", " ", "e\u0301"]),
    ],
)
def test_offsets_point_into_the_text_as_it_was_given(
    tokenizer: UnigramTokenizer, text: str, sources: list[str]
) -> None:
    assert [text[start:end] for start, end in tokenizer.offsets(text)] == sources


def test_one_character_that_becomes_many_words_is_the_source_of_them_all(tokenizer: UnigramTokenizer) -> None:
    offsets = tokenizer.offsets("a\ufdfab")
    assert offsets == sorted(offsets)
    assert {(1, 2)} < set(offsets)


@given(
    st.text(
        st.one_of(
            st.characters(),
            st.sampled_from(
                "ab fin检索，\u0301\u0300\u1100\u1161\u11a8\ufdfa\x00\u200b\u2581\ud800ﬁﾞｶ¨\u3000\n"
            ),
        ),
        max_size=60,
    )
)
@settings(deadline=None, max_examples=400)
def test_offsets_are_ordered_in_range_and_as_many_as_tokens(text: str) -> None:
    tokenizer = UnigramTokenizer(
        pieces={name: index for index, name in enumerate(NAMES)},
        scores=list(WORDS.values()),
        unknown=UNKNOWN,
        spaces="\u200b\u2581\ufffd",
        dropped="\x01\x7f",
    )
    offsets = tokenizer.offsets(text)
    assert len(offsets) == tokenizer.count(text) == len(tokenizer.ids(text))
    starts, ends = [start for start, _ in offsets], [end for _, end in offsets]
    assert starts == sorted(starts)
    assert ends == sorted(ends)
    assert all(0 <= start <= end <= len(text) for start, end in offsets)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
@settings(deadline=None)
def test_a_text_and_its_normal_form_have_the_same_tokens(text: str) -> None:
    tokenizer = UnigramTokenizer(
        pieces={name: index for index, name in enumerate(NAMES)},
        scores=list(WORDS.values()),
        unknown=UNKNOWN,
        spaces="\u200b\u2581\ufffd",
        dropped="",
    )
    text = text.replace("\x00", "")
    assert tokenizer.ids(text) == tokenizer.ids(unicodedata.normalize("NFKC", text))


@pytest.mark.parametrize("unit", ["ab", "检索，", "ﬁ", "e\u0301", "z", "\x00", " ", "\ufdfa", "find "])
def test_a_long_text_in_one_line_is_counted(tokenizer: UnigramTokenizer, unit: str) -> None:
    """A cutter whose time grows with the square would need minutes for each."""
    length = 1_000_000 if unit == "检索，" else 200_000
    once, many = tokenizer.count(unit * 10), tokenizer.count(unit * (length // len(unit)))
    assert many >= once
