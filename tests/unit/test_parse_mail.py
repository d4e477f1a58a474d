"""Mail: charsets, parts, attachments, mailboxes."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from email.message import EmailMessage

import pytest

from making import blob, lines, pdf, zipped
from ragstone.errors import ContentError, CorruptContent, NoText, PasswordRequired
from ragstone.parse.containers import may_hold_members, members
from ragstone.parse.router import parse
from ragstone.types import Blob

HEAD = "From: 张三 <z@example.org>\nTo: b@example.org\nSubject: 报价\nDate: Mon, 02 Mar 2026 09:00:00 +0800\n"


def mail(*, subject: str = "Hello", html: str = "", text: str = "The body.") -> EmailMessage:
    message = EmailMessage()
    message["From"] = "李四 <l@example.org>"
    message["To"] = "b@example.org"
    message["Subject"] = subject
    message["Date"] = "Mon, 02 Mar 2026 09:00:00 +0800"
    message.set_content(text)
    if html:
        message.add_alternative(html, subtype="html")
    return message


def attachments(source: Blob) -> dict[str, bytes]:
    assert may_hold_members(source)
    found = list(members(source))
    assert all(isinstance(member, Blob) for member in found), found
    return {member.name: member.data for member in found if isinstance(member, Blob)}


def test_head_body_and_metadata_of_a_mail_in_chinese() -> None:
    message = mail(subject="合同第二版：请查收并于周五前确认付款条件以及其他事项", text="附件是合同。\n")
    message.add_attachment(
        pdf([lines("Contract")]), maintype="application", subtype="pdf", filename="合同 v2.pdf"
    )
    source = blob("a.eml", message.as_bytes())
    document = parse(source)
    assert document.title == "合同第二版：请查收并于周五前确认付款条件以及其他事项"
    assert document.text.splitlines() == [
        f"Subject: {document.title}",
        "From: 李四 <l@example.org>",
        "To: b@example.org",
        "Date: Mon, 02 Mar 2026 09:00:00 +0800",
        "Attachments: 合同 v2.pdf",
        "",
        "附件是合同。",
    ]
    assert document.metadata["from"] == "李四 <l@example.org>"
    assert document.metadata["date"] == datetime(2026, 3, 2, 1, tzinfo=UTC)
    assert document.media_type == "message/rfc822"
    assert attachments(source)["合同 v2.pdf"].startswith(b"%PDF")


@pytest.mark.parametrize(
    ("declared", "actual"),
    [
        ("gb2312", "gb18030"),
        ("gbk", "gbk"),
        ("big5", "big5"),
        ("utf-8", "gbk"),
        ("unknown-8bit", "utf-8"),
        ("", "gbk"),
    ],
)
def test_a_body_is_read_in_its_charset_whatever_is_declared(declared: str, actual: str) -> None:
    text = "請確認會議時間，並回覆是否參加。" if actual == "big5" else "请确认会议时间，并回复是否参加。"
    charset = f'; charset="{declared}"' if declared else ""
    data = (
        f"From: a@b.c\nTo: d@e.f\nSubject: x\nContent-Type: text/plain{charset}\n\n".encode()
        + text.encode(actual)
    )
    assert text in parse(blob("a.eml", data)).text


@pytest.mark.parametrize("encoding", ["gbk", "utf-8"])
def test_headers_in_raw_bytes_are_read(encoding: str) -> None:
    document = parse(blob("a.eml", HEAD.encode(encoding) + b"\nbody"))
    assert document.title == "报价"
    assert "From: 张三 <z@example.org>" in document.text


def test_encoded_words_split_in_the_middle_of_a_character_are_joined() -> None:
    whole = "会议纪要".encode()
    words = " ".join(f"=?utf-8?B?{base64.b64encode(part).decode()}?=" for part in (whole[:4], whole[4:]))
    assert parse(blob("a.eml", f"Subject: {words}\nFrom: a@b.c\n\nbody")).title == "会议纪要"


def test_of_two_forms_the_one_with_structure_is_taken_else_the_plain_one() -> None:
    table = (
        "<h2>Prices</h2><table><tr><th>Item</th><th>Price</th></tr><tr><td>Bolt</td><td>2</td></tr></table>"
    )
    document = parse(blob("a.eml", mail(html=table, text="Prices Item Price Bolt 2").as_bytes()))
    assert "| Bolt | 2 |" in document.text
    (heading,) = document.headings
    assert document.text[heading.start :].startswith("## Prices")
    plain = parse(
        blob("a.eml", mail(html="<p>Same words here.</p>", text="Same words here.\n--\nme").as_bytes())
    )
    assert plain.text.endswith("--\nme")
    stub = parse(blob("a.eml", mail(html="<p>" + "Long news. " * 30 + "</p>", text="See HTML.").as_bytes()))
    assert "Long news." in stub.text
    assert "See HTML." not in stub.text


def test_quoted_printable_and_nested_parts() -> None:
    data = (
        "From: a@b.c\nTo: d@e.f\nSubject: s\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n"
        "--x\nContent-Type: multipart/alternative; boundary=y\n\n"
        "--y\nContent-Type: text/plain; charset=utf-8\n"
        "Content-Transfer-Encoding: quoted-printable\n\ncaf=C3=A9 and a soft=\n break\n--y--\n"
        "--x\nContent-Type: message/rfc822\n\nFrom: q@r.s\nTo: t@u.v\nSubject: inner\n\ninner body\n--x--\n"
    )
    document = parse(blob("a.eml", data))
    assert "café and a soft break" in document.text
    assert "Content-Transfer-Encoding" not in document.text
    (inner,) = members(blob("a.eml", data))
    assert isinstance(inner, Blob)
    assert inner.name == "inner.eml"
    assert "inner body" in parse(inner).text


def test_an_archive_in_a_mail_is_opened_too() -> None:
    message = mail()
    message.add_attachment(
        zipped({"in/a.txt": b"deep"}), maintype="application", subtype="zip", filename="a.zip"
    )
    found = [member.uri.partition("!/")[2] for member in members(blob("m.eml", message.as_bytes()))]
    assert found == ["a.zip", "a.zip!/in/a.txt"]


def test_two_attachments_of_one_name_are_two_members_and_folders_in_names_go() -> None:
    message = mail()
    for content in (b"one", b"two"):
        message.add_attachment(content, maintype="application", subtype="x", filename="../../a.bin")
    assert attachments(blob("m.eml", message.as_bytes())) == {"a.bin": b"one", "a (2).bin": b"two"}


def test_pictures_of_the_layout_and_signatures_are_no_attachments() -> None:
    message = mail(html='<p>Hi <img src="cid:logo"></p>')
    html = message.get_payload()[1]  # type: ignore[index]
    html.add_related(b"\x89PNG", "image", "png", cid="<logo>")  # type: ignore[union-attr]
    assert attachments(blob("m.eml", message.as_bytes())) == {}


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"  \n\n  \n", NoText),
        (b"From: a@b.c\nTo: d@e.f\nDate: x\n\n", NoText),
        (
            b"From: a@b.c\nTo: d@e.f\nContent-Type: application/pkcs7-mime; smime-type=enveloped-data\n\nMII",
            PasswordRequired,
        ),
    ],
)
def test_mails_without_text_say_why(data: bytes, error: type[ContentError]) -> None:
    with pytest.raises(error):
        parse(blob("a.eml", data))


def test_parts_nested_beyond_reason_end_with_a_reason_or_the_text() -> None:
    head = "From: a@b.c\nTo: d@e.f\nSubject: deep\n"
    data = head + "".join(f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n" for n in range(3_000))
    try:
        text = parse(blob("a.eml", data)).text
    except CorruptContent as error:
        text = f"deep: {error}"
    assert "deep" in text


def test_a_mail_saved_as_utf_16_is_read() -> None:
    assert "正文" in parse(blob("a.eml", (HEAD + "\n正文").encode("utf-16"))).text


def test_a_mailbox_holds_its_mails() -> None:
    one = "From a@b.c Mon Mar  2 09:00:00 2026\nFrom: a@b.c\nTo: d@e.f\nSubject: 第一封\n\n"
    one += "first\n>From here on\n\n"
    two = "From a@b.c Tue Mar  3 09:00:00 2026\nFrom: a@b.c\nTo: d@e.f\nSubject: second\n\nFrom me to you\n"
    source = blob("inbox.mbox", one + two)
    assert "第一封" in parse(source).text
    first, second = members(source)
    assert isinstance(first, Blob)
    assert isinstance(second, Blob)
    assert first.name == "00001.eml"
    assert parse(first).text.endswith("first\nFrom here on")
    assert parse(second).title == "second"


def test_a_text_with_a_colon_is_no_mail() -> None:
    assert parse(blob("a.txt", "To: do\n\nbuy milk")).media_type == "text/plain"
    assert not may_hold_members(blob("a.txt", "To: do\n\nbuy milk"))


def test_files_in_a_pdf_are_members() -> None:
    import pypdfium2

    made = pypdfium2.PdfDocument(pdf([lines("The cover")]))
    made.new_attachment("数据.txt").set_data(b"inside")
    import io

    buffer = io.BytesIO()
    made.save(buffer)
    made.close()
    assert attachments(blob("a.pdf", buffer.getvalue())) == {"数据.txt": b"inside"}


def test_a_mail_of_apple_mail_is_read_without_what_surrounds_it() -> None:
    mail = b"From: a@b.c\nTo: d@e.f\nSubject: apple\n\nThe body.\n"
    data = b"%-10d\n%s<?xml version='1.0'?><plist/>" % (len(mail), mail)
    document = parse(blob("1.emlx", data))
    assert document.title == "apple"
    assert document.text.endswith("The body.")


def test_long_lines_that_begin_like_a_mailbox_take_no_time() -> None:
    data = b"From a@b.c Mon Mar  2 2026\nSubject: x\n\n" + b"\n\nFrom a " + b"2026 " * 200_000
    assert parse(blob("a.mbox", data)).title == "x"
