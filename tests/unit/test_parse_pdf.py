"""PDF: pages, headings, and what cannot be read."""

from __future__ import annotations

import contextlib
from itertools import pairwise

import pytest

from making import blob, lines, pdf
from ragstone.errors import CorruptContent, NoText
from ragstone.parse import ocr
from ragstone.parse.pdf import _agreement, _refuse_garbled, _sane_title  # pyright: ignore[reportPrivateUsage]
from ragstone.parse.router import parse
from ragstone.types import Document


def read(data: bytes, name: str = "made.pdf") -> Document:
    return parse(blob(name, data))


def test_pages_have_their_exact_place() -> None:
    document = read(pdf([lines("Alpha on page one"), "", lines("Gamma on page three", "and a second line")]))
    shown = {page.number: document.text[page.start : page.end].split() for page in document.pages}
    assert shown == {
        1: ["Alpha", "on", "page", "one"],
        2: [],
        3: ["Gamma", "on", "page", "three", "and", "a", "second", "line"],
    }
    assert document.pages[0].start == 0
    assert document.pages[-1].end == len(document.text)
    assert all(a.end == b.start for a, b in pairwise(document.pages))


def test_large_text_is_a_heading_over_what_follows() -> None:
    body = lines(*[f"The body of the text goes on in line {n}, which is long enough." for n in range(8)])
    document = read(pdf([f"BT /F 24 Tf 1 0 0 1 72 800 Tm (Overview of it all) Tj ET {body}"]))
    (span,) = document.headings
    assert span.path == ("Overview of it all",)
    assert document.text[span.start : span.end].count("The body of the text") == 8


def test_turned_text_is_read_too() -> None:
    assert "Turned words here" in read(pdf([lines("Turned words here", turned=True)])).text
    both = read(pdf([f"{lines('Upright words')} {lines('Turned words beside them', turned=True)}"])).text
    assert "Upright words" in both
    assert "Turned words beside them" in both
    assert "Turned page here" in read(pdf([lines("Turned page here")], rotate=90)).text


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Annual Report", "Annual Report"),
        ("Microsoft Word - Annual Report", "Annual Report"),
        ("Microsoft Word - draft.docx", ""),
        ("untitled", ""),
        ("\ufffd\ufffd", ""),
        ("---", ""),
        ("x" * 1000, ""),
    ],
)
def test_titles_that_programs_write_are_not_taken(title: str, expected: str) -> None:
    assert _sane_title(title) == expected


def test_title_of_the_metadata() -> None:
    assert read(pdf([lines("text")], title="The Title")).title == "The Title"
    assert read(pdf([lines("text")])).title == "made.pdf"


def test_a_page_of_pictures_needs_ocr_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "installed", lambda: False)
    with pytest.raises(NoText) as caught:
        read(pdf(["", ""], picture=True))
    assert caught.value.key == "parse.scan"
    assert "OCR" in caught.value.text("zh")
    with pytest.raises(NoText) as caught:
        read(pdf([""]))
    assert caught.value.key == "parse.no_text"


def test_pages_without_text_among_others_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "installed", lambda: False)
    document = read(pdf([lines("Some text"), ""], picture=True))
    assert len(document.warnings) == 1
    assert "page(s) 2" in document.warnings[0].text("en")


@pytest.mark.parametrize("cut", [0.99, 0.7, 0.5, 0.2])
def test_a_file_cut_off_is_read_or_refused(cut: float) -> None:
    data = pdf([lines("Some text")])
    with contextlib.suppress(CorruptContent, NoText):
        assert "Some text" in read(data[: int(len(data) * cut)]).text


def test_a_lost_cross_reference_table_is_repaired() -> None:
    data = pdf([lines("Some text")])
    assert "Some text" in read(data[: data.index(b"xref")] + data[data.index(b"trailer") :]).text


def test_junk_before_the_mark_does_not_hide_a_pdf() -> None:
    assert "Some text" in read(b"junk line\n" + pdf([lines("Some text")]), name="made.bin").text


@pytest.mark.parametrize(
    "text",
    ["\ue001\ue002\ue003 \ue004\ue005", "\ufffd\ufffd ok \ufffd\ufffd", "(cid:12)(cid:7)(cid:99)", "᧒ᥱᦎᦫ"],
)
def test_what_fonts_do_not_map_is_refused(text: str) -> None:
    with pytest.raises(CorruptContent):
        _refuse_garbled(blob("a.pdf", b"x"), [text])


@pytest.mark.parametrize(
    "text", ["普通的中文内容", "English words", "ᥖᥭᥰ ᥖᥬᥲ ᥑᥨᥒᥰ", "a few \ufffd signs in a long line of text"]
)
def test_text_is_not_taken_for_garbage(text: str) -> None:
    _refuse_garbled(blob("a.pdf", b"x"), [text])


@pytest.mark.parametrize(
    ("plain", "markdown", "agrees"),
    [
        ("Name Age\nLi 30", "| Name | Age |\n|---|---|\n| **Li** | 30 |", True),
        ("日本語の縦書き文字列", "日 あ 本 い 語 う", False),
        ("words that were lost", "words", False),
        ("", "", True),
    ],
)
def test_agreement_of_the_two_readers(plain: str, markdown: str, agrees: bool) -> None:
    assert (_agreement(plain, markdown) > 0.97) is agrees
