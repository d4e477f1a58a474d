"""Awkward files of every kind, as people have them (A14): each reads, or says why not."""

from __future__ import annotations

import json

import pytest

from making import blob, cell, compound, docx, lines, paragraph, pdf, row, workbook, zipped
from ragstone.parse.containers import members
from ragstone.parse.decode import decode
from ragstone.parse.package import Package
from ragstone.parse.router import parse
from ragstone.types import Blob

ZH = "本合同由甲乙双方签订，付款期限为三十天。\n逾期未付的，按日加收违约金。"
JA = "本契約は甲乙双方により締結される。支払期限は三十日とする。カタカナも含む。"
KO = "본 계약은 갑과 을 사이에 체결되며 지급 기한은 삼십 일로 한다."
TW = "本合約由甲乙雙方簽訂，付款期限為三十天。逾期未付者，按日加收違約金。"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (ZH, "gb18030"), (TW, "big5"), (JA, "shift_jis"), (JA, "euc_jp"), (KO, "euc_kr"),
        (ZH, "utf-16-le"), (ZH, "utf-16-be"), (ZH, "utf-32-le"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("name", "around"), [("a.txt", "{}"), ("a.html", "<html><body><p>{}</p></body></html>")]
)
def test_c19_text_without_a_declared_charset_is_read(
    text: str, encoding: str, name: str, around: str
) -> None:
    found = parse(blob(name, around.format(text).encode(encoding))).text
    assert "".join(text.split()) in "".join(found.split())


def test_random_bytes_of_even_number_are_not_taken_for_utf_16() -> None:
    data = bytes((place * 7919 + place * place * 31) % 255 + 1 for place in range(4001)) + b"\x00"
    with pytest.raises(Exception, match="no text"):
        decode(data, name="a.txt")


def test_colours_of_a_terminal_are_no_text() -> None:
    assert parse(blob("a.log", "\x1b[1;31mERROR\x1b[0m disk full\x1b[K\n值")).text == "ERROR disk full\n值"


def test_a_formula_without_a_value_stands_as_it_is_written() -> None:
    cells = (
        '<row r="1"><c r="A1" t="inlineStr"><is><t>a</t></is></c>'
        '<c r="B1" t="inlineStr"><is><t>b</t></is></c></row>'
        '<row r="2"><c r="A2"><f>A1+7</f><v></v></c>'
        '<c r="B2"><f>HYPERLINK("https://example.org","the ""price"" list")</f></c></row>'
        '<row r="3"><c r="A3"><f>SUM(A1)</f><v>9</v></c></row>'
    )
    text = parse(blob("a.xlsx", workbook({"S": f"<sheetData>{cells}</sheetData>"}))).text
    assert '| =A1+7 | the "price" list |' in text
    assert "| 9 |" in text


def test_folders_in_a_package_may_be_parted_as_windows_does() -> None:
    source = Package(blob("a.docx", docx(paragraph("the body"))))
    parts = {name.replace("/", "\\"): source.read(name) for name in source.names}
    assert parse(blob("a.docx", zipped(parts))).text == "the body"


def test_a_table_within_a_table_keeps_every_cell() -> None:
    inner = "<w:tbl>" + row(cell("in one"), cell("in two")) + "</w:tbl>"
    body = (
        "<w:tbl>"
        + row(cell("out"), cell("b"))
        + f"<w:tr><w:tc>{inner}<w:p/></w:tc>{cell('right')}</w:tr></w:tbl>"
    )
    text = parse(blob("a.docx", docx(body))).text
    assert "| out | b |" in text
    assert "| in one in two | right |" in text


def test_notes_on_a_page_are_quoted_once() -> None:
    plain = pdf([lines("The price is fixed.")])
    notes = (
        b"/Annots [<< /Type /Annot /Subtype /Text /Rect [9 9 30 30] /Contents (Ask the seller) >>"
        b" << /Type /Annot /Subtype /Highlight /Rect [9 9 30 30] /Contents (The price is fixed.) >>"
        b" << /Type /Annot /Subtype /Link /Rect [9 9 30 30] /Contents (a link) >>] /Contents"
    )
    source = blob("a.pdf", plain.replace(b"/Contents", notes, 1))
    assert parse(source).text == "The price is fixed.\n\n> Ask the seller"


def test_an_error_in_a_notebook_is_read_without_its_colours() -> None:
    output = {"output_type": "error", "ename": "ValueError", "evalue": "bad rate", "traceback": ["\x1b[31mx"]}
    cells = [{"cell_type": "code", "source": ["rate()"], "outputs": [output]}]
    text = parse(blob("a.ipynb", json.dumps({"nbformat": 4, "cells": cells}))).text
    assert text == "```\nrate()\n```\n\n```\nValueError: bad rate\n```"


def mail(body: str) -> Blob:
    return blob("a.eml", f"From: a@b.c\r\nSubject: s\r\nMIME-Version: 1.0\r\n{body}".encode())


def test_a_mail_that_is_an_invitation_only_shows_it() -> None:
    text = parse(mail("Content-Type: text/calendar\r\n\r\nBEGIN:VEVENT\r\nSUMMARY:Budget\r\n")).text
    assert "SUMMARY:Budget" in text
    assert "Attachments" not in text


def test_a_mail_of_many_parts_without_any_shows_what_stands_there() -> None:
    assert "No part" in parse(mail("Content-Type: multipart/mixed; boundary=q\r\n\r\nNo part here.\r\n")).text


def test_a_mail_that_came_back_says_why() -> None:
    status = (
        "Reporting-MTA: dns; x.y\r\n\r\nFinal-Recipient: rfc822; n@x.y\r\nDiagnostic-Code: smtp; 550 unknown"
    )
    text = parse(
        mail(
            "Content-Type: multipart/report; boundary=q\r\n\r\n--q\r\nContent-Type: text/plain\r\n\r\nSorry\n"
            f"--q\r\nContent-Type: message/delivery-status\r\n\r\n{status}\r\n--q--\r\n"
        )
    ).text
    assert "Sorry" in text
    assert "550 unknown" in text


def test_a_message_within_an_outlook_message_is_a_member_with_its_own_files() -> None:
    within = "__attach_version1.0_#00000000/__substg1.0_3701000D/"
    file = f"{within}__attach_version1.0_#00000000/"

    def message(subject: str, body: str, *, root: str = "") -> dict[str, bytes]:
        return {
            f"{root}__properties_version1.0": b"",
            f"{root}__substg1.0_0037001F": subject.encode("utf-16-le"),
            f"{root}__substg1.0_1000001F": body.encode("utf-16-le"),
        }

    data = compound(
        message("Outer", "See below.")
        | message("报价/二", "内文 inside", root=within)
        | {
            f"{file}__substg1.0_37010102": b"file text",
            f"{file}__substg1.0_3704001F": "注.txt".encode("utf-16-le"),
        }
    )
    source = blob("a.msg", data)
    assert parse(source).text == "# Outer\n\nSee below.\n\nAttachments: 报价/二"
    inner, attached = members(source)
    assert isinstance(inner, Blob)
    assert isinstance(attached, Blob)
    assert inner.name == "报价-二.eml"
    assert parse(inner).text == "Subject: 报价/二\nAttachments: 注.txt\n\n内文 inside"
    assert (attached.name, attached.data.rstrip(b"\x00")) == ("注.txt", b"file text")
