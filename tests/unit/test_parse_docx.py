"""DOCX: text in reading order with headings, lists, tables and notes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from making import blob, cell, docx, list_item, paragraph, part, row, zipped
from ragstone.errors import ContentTooLarge, CorruptContent, NoText
from ragstone.parse.router import parse
from ragstone.types import Document


def read(body: str, **parts: str) -> Document:
    return parse(blob("made.docx", docx(body, **parts)))


def test_headings_by_style_inherited_style_and_outline_level() -> None:
    document = read(
        paragraph("before")
        + paragraph("一 总则", style="1")
        + paragraph("text")
        + paragraph("Inherited", style="Mine")
        + paragraph("Direct", properties='<w:outlineLvl w:val="2"/>')
        + paragraph("Looping style", style="Loop")
        + paragraph("# no heading")
    )
    assert [span.path for span in document.headings] == [
        ("一 总则",),
        ("一 总则", "Inherited"),
        ("一 总则", "Inherited", "Direct"),
    ]
    assert document.text == (
        "before\n\n# 一 总则\n\ntext\n\n## Inherited\n\n### Direct\n\nLooping style\n\n# no heading"
    )
    assert document.title == "一 总则"
    assert document.text[document.headings[-1].start :].startswith("### Direct")


def test_lists_count_and_nest() -> None:
    body = list_item("a") + list_item("b") + list_item("inner", 1) + list_item("c") + paragraph("after")
    assert read(body).text == "3. a\n4. b\n  - inner\n5. c\n\nafter"


def test_tables_keep_their_columns() -> None:
    merged = '<w:vMerge w:val="restart"/>', "<w:vMerge/>"
    document = read(
        paragraph("before")
        + "<w:tbl>"
        + row(cell("甲方"), cell("a|b"), cell("c"))
        + row(cell("tall", merged[0]), cell("wide", '<w:gridSpan w:val="2"/>'))
        + row(cell("", merged[1]), cell("x"), cell("y"))
        + "</w:tbl>"
        + paragraph("after")
    )
    assert document.text == (
        "before\n\n| 甲方 | a\\|b | c |\n| --- | --- | --- |\n| tall | wide |  |\n| tall | x | y |\n\nafter"
    )


def test_a_table_of_one_cell_is_a_frame_around_text() -> None:
    frame = f"<w:tbl><w:tr><w:tc>{paragraph('Boxed', style='1')}{paragraph('text')}</w:tc></w:tr></w:tbl>"
    assert read(frame).text == "# Boxed\n\ntext"


def test_text_boxes_are_read_once() -> None:
    box = f"<w:txbxContent>{paragraph('in the box')}</w:txbxContent>"
    drawing = (
        '<w:r><mc:AlternateContent xmlns:mc="urn:mc"><mc:Choice>'
        f"<w:drawing>{box}</w:drawing></mc:Choice><mc:Fallback><w:pict>{box}</w:pict></mc:Fallback>"
        "</mc:AlternateContent></w:r>"
    )
    assert read(paragraph("around", inside=drawing)).text == "around\n\nin the box"


def test_notes_and_comments_follow_the_text() -> None:
    marks = '<w:r><w:footnoteReference w:id="2"/></w:r><w:r><w:commentReference w:id="0"/></w:r>'
    note = f'<w:footnote w:id="2">{paragraph("the note")}</w:footnote>'
    comment = f'<w:comment w:id="0" w:author="Li">{paragraph("please check")}</w:comment>'
    document = read(
        paragraph("claim", inside=marks),
        footnotes=part("footnotes", note),
        comments=part("comments", comment),
    )
    assert document.text == "claim[^1]\n\n[^1]: the note\n\n> Li: please check"


def test_tracked_changes_hidden_text_and_fields() -> None:
    inside = (
        "<w:ins><w:r><w:t>added </w:t></w:r></w:ins><w:del><w:r><w:delText>removed</w:delText></w:r></w:del>"
        "<w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r><w:r><w:instrText>PAGE</w:instrText></w:r>"
        "<w:r><w:t> soft</w:t><w:softHyphen/><w:t>hyphen</w:t><w:noBreakHyphen/><w:t>x</w:t></w:r>"
        "<w:r><w:ruby><w:rt><w:r><w:t>とう</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>東</w:t></w:r></w:rubyBase></w:ruby></w:r>"
    )
    assert read(paragraph(inside=inside)).text == "added ~~removed~~ softhyphen-x東"


def test_formulas_are_written_on_one_line() -> None:
    def run(text: str) -> str:
        return f"<m:r><m:t>{text}</m:t></m:r>"

    square = f"<m:sSup><m:e>{run('c')}</m:e><m:sup>{run('2')}</m:sup></m:sSup>"
    fraction = f"<m:f><m:num>{run('a+b')}</m:num><m:den>{run('2')}</m:den></m:f>"
    root = f"<m:rad><m:deg/><m:e>{run('x')}</m:e></m:rad>"
    total = (
        f'<m:nary><m:naryPr><m:chr w:val="∑"/></m:naryPr><m:sub>{run("i=1")}</m:sub><m:sup>{run("n")}</m:sup>'
        f"<m:e>{run('i')}</m:e></m:nary>"
    )
    document = read(paragraph("E=", inside=f"<m:oMath>{run('m')}{square}, {fraction}{root}{total}</m:oMath>"))
    assert document.text == "E=mc^2(a+b)/2√x∑_(i=1)^(n) i"


def test_properties_are_metadata() -> None:
    data = docx(paragraph("text"))
    core = (
        '<c:coreProperties xmlns:c="urn:c" xmlns:d="urn:d"><d:title>Plan</d:title><d:creator>Li</d:creator>'
        "<d:created>2024-05-06T07:08:09Z</d:created><d:modified>soon</d:modified></c:coreProperties>"
    )
    import io
    import zipfile

    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("docProps/core.xml", core)
    document = parse(blob("made.docx", buffer.getvalue()))
    assert document.title == "Plan"
    assert dict(document.metadata) == {"author": "Li", "created": datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)}


@pytest.mark.parametrize("body", ["", paragraph(), paragraph("  ")])
def test_a_document_without_text_says_so(body: str) -> None:
    with pytest.raises(NoText):
        read(body)


def test_entities_are_refused() -> None:
    xml = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><w:document xmlns:w="urn:w">&e;</w:document>'
    with pytest.raises(CorruptContent):
        parse(blob("made.docx", zipped({"word/document.xml": xml})))


def test_broken_xml_is_refused() -> None:
    with pytest.raises(CorruptContent):
        parse(blob("made.docx", zipped({"word/document.xml": "<w:document"})))


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    bomb = zipped({"word/document.xml": b"<x>" + b" " * 300_000_000})
    assert len(bomb) < 1_000_000
    with pytest.raises(ContentTooLarge):
        parse(blob("made.docx", bomb))


def test_a_damaged_package_is_refused() -> None:
    data = docx(paragraph("text " * 500))
    with pytest.raises(CorruptContent):
        parse(blob("made.docx", data[: len(data) // 2]))
    broken = bytearray(data)
    at = data.index(b"word/document.xml") + 40
    broken[at : at + 60] = b"\xff" * 60
    with pytest.raises(CorruptContent):
        parse(blob("made.docx", bytes(broken)))
