"""The default cleaner and the bookkeeping of spans."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.clean import chained, clean, edited, tidy_blanks
from ragstone.types import Document, HeadingSpan, PageSpan


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\nb\rc", "a\nb\nc"),
        ("a  \nb\t\u3000\nc", "a\nb\nc"),
        ("a\n\nb\n\n\nc", "a\n\nb\n\n\nc"),
        ("a\n\n\n\nb\n \n \n \n\nc", "a\n\nb\n\nc"),
        ("\n\n  \n    code\n", "    code"),
        ("end   ", "end"),
        ("", ""),
        ("already clean", "already clean"),
    ],
)
def test_clean(text: str, expected: str) -> None:
    assert clean(Document(text=text)).text == expected


def test_spans_follow_the_text() -> None:
    text = "# 标题  \r\n正文  \r\n\r\n\r\n\r\n\r\n## Next\r\nmore\r\n"
    second = text.index("## Next")
    document = Document(
        text=text,
        pages=(PageSpan(number=1, start=0, end=second), PageSpan(number=2, start=second, end=len(text))),
        headings=(
            HeadingSpan(path=("标题",), start=0, end=second),
            HeadingSpan(path=("标题", "Next"), start=second, end=len(text)),
        ),
    )
    cleaned = clean(document)
    shown = [cleaned.text[span.start : span.end] for span in cleaned.pages]
    assert shown == [
        "# 标题\n正文\n\n",
        "## Next\nmore",
    ]
    assert [(s.start, s.end) for s in cleaned.headings] == [(s.start, s.end) for s in cleaned.pages]


TEXT = st.text(st.sampled_from("ab中 \t\n\r\u3000"), max_size=60)


@settings(deadline=None, max_examples=300)
@given(TEXT, st.data())
def test_cleaning_keeps_words_order_and_spans(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    edges = [0, *cuts, len(text)]
    pages = tuple(
        PageSpan(number=number, start=start, end=end)
        for number, (start, end) in enumerate(pairwise(edges), 1)
    )
    cleaned = tidy_blanks(Document(text=text, pages=pages))
    assert cleaned.text.split() == text.split()
    assert tidy_blanks(cleaned) == cleaned
    assert not re.search(r"[^\S\n]\n|\n{5}", cleaned.text)
    # Neighbours still touch, and each page holds the letters it held.
    assert all(a.end == b.start for a, b in pairwise(cleaned.pages))
    for before, after in zip(pages, cleaned.pages, strict=True):
        held = "".join(text[before.start : before.end].split())
        assert "".join(cleaned.text[after.start : after.end].split()) == held


@given(st.text(alphabet="ab \t\n\r\x0b\u3000\u2028\x85", max_size=24))
@settings(max_examples=500)
def test_blanks_are_tidied_line_by_line(text: str) -> None:
    lines = [line.rstrip() for line in re.sub(r"\r\n?", "\n", text).split("\n")]
    expected = re.sub(r"\n{4,}", "\n\n", "\n".join(lines)).strip("\n")
    assert tidy_blanks(Document(text=text)).text == expected


def test_edits_move_what_stands_behind_them() -> None:
    document = Document(text="0123456789", pages=(PageSpan(number=1, start=4, end=8),))
    changed = edited(document, [(1, 3, ""), (5, 6, "xyz")])
    assert changed.text == "034xyz6789"
    (page,) = changed.pages
    assert changed.text[page.start : page.end] == "4xyz67"


def test_chained_cleaners_run_in_order_until_one_drops_the_document() -> None:
    seen: list[str] = []

    def note(document: Document) -> Document:
        seen.append(document.text)
        return document

    assert chained(clean, note, lambda _: None, note)(Document(text="a ")) is None
    assert seen == ["a"]
    kept = chained(clean)(Document(text="a "))
    assert kept is not None
    assert kept.text == "a"


def test_millions_of_blanks_take_one_pass() -> None:
    assert clean(Document(text="a" + " " * 3_000_000 + "b")).text.endswith("b")
