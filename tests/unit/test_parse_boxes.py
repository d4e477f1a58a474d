"""Where text stands on the page, from the reader through the wire and the cleaner (W: drawn citations)."""

from __future__ import annotations

import json

import pytest

from making import blob, lines, pdf
from ragstone.clean import clean
from ragstone.parse import wire
from ragstone.parse.boxes import Block, located
from ragstone.parse.router import parse
from ragstone.types import Document


def made() -> Document:
    texts = [f"Paragraph {n} of the page is a line of text" for n in range(3)]
    return parse(blob("a.pdf", pdf([lines(*texts), lines("Something else on page two")])))


def test_boxes_lie_on_their_page_from_the_top_left_over_their_text() -> None:
    document = made()
    assert {box.page for box in document.boxes} == {1, 2}
    for box in document.boxes:
        page = document.pages[box.page - 1]
        assert page.start <= box.start < box.end <= page.end
        assert 0 <= box.x0 < box.x1 <= 600
        assert 0 <= box.y0 < box.y1 <= 850
    # The text stands near the top of the page, so its distance from the top is small.
    assert document.boxes[0].y0 < 200
    assert document.text[document.boxes[-1].start : document.boxes[-1].end] == "Something else on page two"


def test_boxes_survive_the_wire_and_wrong_ones_are_refused() -> None:
    document = made()
    header = json.loads(json.dumps(wire.describe(document)))
    source = blob("a.pdf", b"")
    assert wire.restore(source, header, document.text.encode()).boxes == document.boxes
    for wrong in (
        [1, 0, 9_999, 0, 0, 1, 1],
        [1, 0, 1, 0, 0, 1],
        [1, 0, 1, "a", 0, 1, 1],
        [1, 0, 1, float("inf"), 0, 1, 1],
    ):
        with pytest.raises(wire.Broken):
            wire.restore(source, {**header, "boxes": [wrong]}, document.text.encode())


def test_boxes_follow_the_cleaner() -> None:
    document = made()
    cleaned = clean(document)
    assert [cleaned.text[box.start : box.end] for box in cleaned.boxes] == [
        document.text[box.start : box.end] for box in document.boxes
    ]


def corners(*texts: str) -> list[Block]:
    return [Block(text, (0.0, float(n), 1.0, n + 1.0)) for n, text in enumerate(texts)]


def test_a_block_is_found_by_its_letters_whatever_the_marks_between() -> None:
    text = "## 第一章 Pumps\n\nA *new* pump,\nit runs."
    found = [
        text[box.start - 10 : box.end - 10]
        for box in located(
            text, corners("A new pump, it runs.", "第一章  Pumps", "not there", "--"), page=1, offset=10
        )
    ]
    assert found == ["A *new* pump,\nit runs", "第一章 Pumps"]


def test_a_long_block_is_found_by_its_ends() -> None:
    text = "the quick brown fox jumps over the lazy dog and runs through the dark green wood"
    (box,) = located(text, corners(text.replace("lazy dog", "lazi dogs")), page=1, offset=0)
    assert (box.start, box.end) == (0, len(text))
