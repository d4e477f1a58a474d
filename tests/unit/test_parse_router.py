"""Which parser reads what: by content, whatever the name says."""

from __future__ import annotations

import pytest

from making import blob, docx, lines, paragraph, pdf, shape, slides, zipped
from ragstone.errors import (
    ContentError,
    CorruptContent,
    NoText,
    PasswordRequired,
    UnsupportedContent,
)
from ragstone.parse.router import parse

HTML = "<html><body><h1>Head</h1><p>text</p></body></html>"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)
MAIL = "From: a@example.org\nTo: b@example.org\nSubject: hello\nDate: today\n\nbody"

PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"


@pytest.mark.parametrize(
    ("name", "data", "media_type"),
    [
        ("a.txt", pdf([lines("words")]), "application/pdf"),
        (
            "a.pdf",
            docx(paragraph("words")),
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        ),
        ("a.doc", HTML.encode(), "text/html"),
        ("a.xls", b"<table><tr><td>words</td></tr></table>", "text/html"),
        ("a", HTML.encode(), "text/html"),
        ("a.htm", b"words <b>bold</b>", "text/html"),
        ("a.md", HTML.encode(), "text/markdown"),
        ("a.txt", b"# words", "text/plain"),
        ("a.csv", b"a,b\n1,2\n", "text/csv"),
        ("a.xlsx", b"name,n,m\na,1,2\nb,3,4\n", "text/csv"),
        ("a.json", b'{"a": NaN}', "application/json"),
        ("a.xml", b"<?xml version='1.0'?><a>words</a>", "application/xml"),
        ("a.pdf", b"{\\rtf1 words}", "application/rtf"),
        (
            "a.txt",
            slides([shape("words")]),
            PPTX,
        ),
        ("a.yml", b"a: 1\nb: [1, 2]", "text/plain"),
        ("a.html", b"no tags at all", "text/plain"),
        ("a.txt", MAIL.encode(), "message/rfc822"),
        ("a.txt", zipped({"hello.txt": "x"}), "application/zip"),
        ("BM.txt", b"BMW builds cars", "text/plain"),
        ("a.txt", b"The mark %PDF-1.7 begins a PDF file.", "text/plain"),
    ],
)
def test_a14_the_content_decides(name: str, data: bytes, media_type: str) -> None:
    assert parse(blob(name, data)).media_type == media_type


@pytest.mark.parametrize(
    ("name", "data", "error", "key"),
    [
        ("a.txt", b"", NoText, "load.empty"),
        ("a.txt", " \u3000\u00a0\n".encode(), NoText, "parse.no_text"),
        ("a.heic", b"\x00\x00\x00\x18ftypheic" + bytes(20), NoText, "parse.image_kind"),
        ("a.pdf", b"just a line of text", CorruptContent, "parse.misnamed"),
        ("a.docx", b"just a line of text", CorruptContent, "parse.misnamed"),
        ("a.pdf", HTML.encode(), CorruptContent, "parse.misnamed"),
        ("a.docx", bytes(range(256)) * 4, CorruptContent, "parse.misnamed"),
        ("a.docx", zipped({"hello.txt": "x"}), CorruptContent, "parse.misnamed"),
        ("a.zip", b"PK\x03\x04 and then nothing", CorruptContent, "parse.corrupt"),
        ("a.gz", b"\x1f\x8b\x08" + bytes(20), CorruptContent, "parse.corrupt"),
        ("a.rar", b"Rar!\x1a\x07\x01\x00" + bytes(20), UnsupportedContent, "parse.archive"),
        ("a.pptx", zipped({"ppt/presentation.xml": "<x/>"}), NoText, "parse.no_text"),
        ("a.doc", OLE + "WordDocument".encode("utf-16-le"), CorruptContent, "parse.corrupt"),
        ("a.db", b"SQLite format 3\x00" + bytes(100), UnsupportedContent, "parse.not_read_yet"),
        ("a.docx", b'{"a": 1}', CorruptContent, "parse.misnamed"),
        ("a.docx", OLE + "EncryptedPackage".encode("utf-16-le"), PasswordRequired, "parse.password"),
        ("a.bin", bytes(range(256)) * 4, UnsupportedContent, "parse.binary"),
    ],
)
def test_what_is_not_read_says_why(name: str, data: bytes, error: type[ContentError], key: str) -> None:
    with pytest.raises(error) as caught:
        parse(blob(name, data))
    assert caught.value.key == key
    assert name in caught.value.text("en")
    assert name in caught.value.text("zh")


def test_what_is_not_read_yet_names_what_is() -> None:
    with pytest.raises(UnsupportedContent, match=r"looks like SQLite.*PDF, DOCX") as caught:
        parse(blob("a.db", b"SQLite format 3\x00" + bytes(100)))
    assert "Markdown" in caught.value.text("zh")


def test_an_encrypted_package_needs_a_password() -> None:
    package = {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "META-INF/manifest.xml": "<manifest:encryption-data/>",
        "content.xml": b"\x01\x02",
    }
    with pytest.raises(PasswordRequired):
        parse(blob("a.odt", zipped(package)))


def test_a_book_is_read() -> None:
    container = "urn:oasis:names:tc:opendocument:xmlns:container"
    book = zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": f'<container xmlns="{container}" version="1.0">'
            '<rootfiles><rootfile full-path="b.opf" media-type="application/oebps-package+xml"/>'
            "</rootfiles></container>",
            "b.opf": '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="i">'
            '<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>A Book</dc:title></metadata>'
            '<manifest><item id="c" href="c.xhtml" media-type="application/xhtml+xml"/></manifest>'
            '<spine><itemref idref="c"/></spine></package>',
            "c.xhtml": '<html xmlns="http://www.w3.org/1999/xhtml"><body><h1>第一章</h1>'
            "<p>Once upon a time.</p></body></html>",
        }
    )
    document = parse(blob("a.epub", book))
    assert "Once upon a time." in document.text
    assert "第一章" in document.text
    assert document.media_type == "application/epub+zip"


def test_many_comments_take_no_time() -> None:
    assert parse(blob("a.txt", "<!-- x -->" * 800 + "words")).media_type == "text/plain"
