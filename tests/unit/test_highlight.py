"""Where the words of a question stand in a passage: exact offsets, or none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.highlight import highlights
from ragstone.terms import analyze


@pytest.mark.parametrize(
    ("question", "text", "marked"),
    [
        (
            "installing software",
            "He installed the SOFTWARE's installs",
            ["installed", "SOFTWARE", "installs"],
        ),
        ("the of and", "the best of the rest", []),
        ("熊猫吃什么", "大熊猫吃竹子。", ["熊猫吃"]),
        ("台灣的熊貓", "大熊猫在台湾", ["熊猫", "台湾"]),
        ("台湾熊猫", "臺灣的熊貓", ["臺灣", "熊貓"]),
        ("AB12037", "order AB-1203/7, not AB-1203", ["AB-1203/7"]),
        ("AB-1203/7", "AB 1203 7 ab12037", ["AB", "1203", "7", "ab12037"]),
        ("email to info@example.org", "E-mail: INFO@example.org", ["E-mail", "INFO@example.org"]),
        ("C++", "C, C++ and C#", ["C", "C++", "C"]),
        ("café", "cafe\u0301 and CAFÉ", ["cafe\u0301", "CAFÉ"]),
        ("strasse 12", "Straße １２", ["Straße", "１２"]),
        ("file", "a ﬁle", ["ﬁle"]),
        ("softhyphen", "a soft\u00adhyphen here", ["soft\u00adhyphen"]),
        ("张三 email", "😀张三的email是", ["张三", "email"]),
        ("text", "", []),
        ("", "text", []),
        ("text", "nothing of it", []),
    ],
)
def test_the_words_of_a_question_are_marked_as_they_are_written(
    question: str, text: str, marked: list[str]
) -> None:
    """W31: in Chinese as in English, by stem, script, width and part number."""
    assert [text[start:end] for start, end in highlights(question, text)] == marked


LATIN = ("running", "RUN", "cities", "city's", "AB-1203/7", "e-mail", "C++", ".NET", "\u00e9", "e\u0301", "ß")
ODD = ("ﬁ", "１２", "\u200d", "\u0301", "ｶﾞ", "\u1112\u1161\u11ab", "İ", "ǆ", "½", "熊猫", "熊貓吃竹子", "臺")
words = st.sampled_from([*LATIN, *ODD])
passages = st.lists(words | st.text(max_size=3), max_size=12).map("".join) | st.text(max_size=40)


@given(question=passages, text=passages)
def test_what_is_marked_is_a_word_of_the_question(question: str, text: str) -> None:
    """W31: however strange the text, no offset is ever wrong."""
    wanted = set(analyze(question))
    last = 0
    for start, end in highlights(question, text):
        assert last <= start < end <= len(text)
        assert wanted & set(analyze(text[start:end]))
        last = end


@given(text=st.lists(words, min_size=1, max_size=8).map(" ".join))
def test_every_word_of_a_text_is_marked_when_it_is_the_question(text: str) -> None:
    marked = [text[start:end] for start, end in highlights(text, text)]
    assert {term for piece in marked for term in analyze(piece)} == set(analyze(text))
