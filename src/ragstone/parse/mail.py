"""Mail (RFC 822) and mailboxes: the mail is the document, attachments are its members.

The standard library's parser finds the parts; headers and bodies are decoded here, since
real mail declares charsets it does not use, or none.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from email import message_from_bytes
from email.header import decode_header
from email.message import Message
from email.policy import Compat32
from email.utils import collapse_rfc2231_value, parsedate_to_datetime
from functools import partial
from pathlib import PurePosixPath
from typing import cast

from ragstone.errors import ContentError, CorruptContent, NoText, PasswordRequired
from ragstone.metadata import MetadataValue
from ragstone.parse.decode import SUPERSETS, decode, tidy_characters
from ragstone.parse.members import MAX_MEMBERS, Entry
from ragstone.parse.outline import Heading, document
from ragstone.types import Blob, Document

MAX_PARTS = 2_000
MAIL_HEAD = 16_384
SHORTER = 0.5
"""A plain text with less than this share of the HTML's letters is a stub beside it."""

_NAMES = ("eml", "mht", "mhtml", "emlx", "mbox", "mbx")
_HEADER = re.compile(
    rb"(?:from|to|subject|date|received|mime-version|message-id|return-path|delivered-to|reply-to|content-type):",
    re.IGNORECASE,
)
_FROM_LINE = re.compile(
    rb"^From \S{1,320} .{0,200}\d{4}[^\r\n]{0,100}\r?\n(?=[A-Za-z-]+:|>From )", re.MULTILINE
)
# Apple Mail (emlx) writes the length of the mail in front of it, and a property list after it.
_APPLE_COUNT = re.compile(rb"\A(\d{1,10})[ \t]*\r?\n(?=[A-Za-z-]+:)")
_SIGNATURES = ("application/pkcs7-signature", "application/x-pkcs7-signature", "application/pgp-signature")


def is_mail(data: bytes, suffix: str) -> bool:
    """Named as one, or three of the usual header lines before the first blank line."""
    head = _plain_bytes(data[:MAIL_HEAD]).lstrip()
    if head.startswith((b"<", b"%PDF")):
        return False
    lines = head.replace(b"\r\n", b"\n").partition(b"\n\n")[0].split(b"\n")
    usual = {match[0].lower() for line in lines if (match := _HEADER.match(line))}
    if suffix in _NAMES:
        return bool(usual) or not data.strip()
    return re.match(rb"[A-Za-z-]+:\s|From \S+@", lines[0]) is not None and len(usual) >= 3


def mail_entries(blob: Blob) -> Iterator[Entry]:
    """The attachments of a mail, or the mails of a mailbox."""
    data = _plain_bytes(blob.data)
    if mails := _split_mailbox(data):
        for number, (start, end) in enumerate(mails, 1):
            yield Entry(
                path=f"{number:05}.eml", read=partial(_mail_in_box, data, start, end), size=end - start
            )
        return
    for number, part in enumerate(_parts(blob, data).attached, 1):
        yield Entry(
            path=_file_name(part, number), read=partial(_attached, part), media_type=part.get_content_type()
        )


def parse_mail(blob: Blob) -> Document:
    """The head of a mail in readable lines, then its body; of a mailbox, a list of its mails.

    Raises:
        NoText: neither subject nor body. PasswordRequired: the body is encrypted.
        CorruptContent: no mail, or nested beyond reading.
    """
    data = _plain_bytes(blob.data)
    if mails := _split_mailbox(data):
        return _parse_mailbox(blob, data, mails)
    parts = _parts(blob, data)
    head = _Head.of(parts.message)
    names = [_file_name(part, number) for number, part in enumerate(parts.attached, 1)]
    bodies = [_body(part) for part in parts.bodies]
    if parts.encrypted and not any(text.strip() for text, _ in bodies):
        raise PasswordRequired("parse.password", name=blob.name)
    text = "\n".join(head.lines + ([f"Attachments: {', '.join(names)}"] if names else []))
    if not (head.subject or names or any(text.strip() for text, _ in bodies)):
        raise NoText("parse.no_text", name=blob.name)
    headings: list[Heading] = []
    for body, found in bodies:
        if body.strip():
            gap = "\n\n" if text else ""
            start = len(text) + len(gap)
            headings += [Heading(item.level, item.title, item.start + start) for item in found]
            text += gap + body
    return document(
        blob,
        text,
        media_type="message/rfc822",
        title=head.subject,
        headings=headings,
        metadata=head.metadata(),
    )


# --- the head ------------------------------------------------------------------------


class _Raw(Compat32):
    """Gives headers as they stand, bytes beyond ASCII as surrogates; the usual one replaces those."""

    def header_fetch_parse(self, name: str, value: str) -> str:
        return value


_RAW = _Raw()


@dataclass(frozen=True, slots=True)
class _Head:
    subject: str
    sender: str
    to: str
    copies: str
    date: str

    @classmethod
    def of(cls, message: Message) -> _Head:
        fields = ("subject", "from", "to", "cc", "date")
        return cls(*(decoded_header(message.get(name, "")) for name in fields))

    @property
    def lines(self) -> list[str]:
        labels = ("Subject", "From", "To", "Cc", "Date")
        values = (self.subject, self.sender, self.to, self.copies, self.date)
        return [f"{label}: {value}" for label, value in zip(labels, values, strict=True) if value]

    def metadata(self) -> dict[str, MetadataValue]:
        found: dict[str, MetadataValue] = {}
        for key, value in (("subject", self.subject), ("from", self.sender), ("to", self.to)):
            if value:
                found[key] = value[:4_000]
        try:
            moment = parsedate_to_datetime(self.date)
        except (ValueError, TypeError, IndexError, OverflowError):
            return found
        with suppress(OverflowError):
            found["date"] = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        return found


def decoded_header(value: object) -> str:
    """A header's text: encoded words, raw bytes in any charset, folded lines."""
    raw = _surrogates(str(value))
    pieces: list[str] = []
    try:
        for piece, charset in decode_header(raw):
            data = piece if isinstance(piece, bytes) else piece.encode("utf-8", "surrogateescape")
            pieces.append(_decoded(data, charset or ""))
    except (ValueError, LookupError):  # base64 that is none
        pieces = [_decoded(raw.encode("utf-8", "surrogateescape"), "")]
    return " ".join(tidy_characters("".join(pieces)).split())


def _surrogates(value: str) -> str:
    # The parser keeps bytes beyond ASCII as surrogates; as a header they may be any charset.
    data = value.encode("utf-8", "surrogateescape")
    return value if data.isascii() else _decoded(data, "")


def _decoded(data: bytes, charset: str) -> str:
    """Bytes in the charset they declare if they are in it, else in the one they look like."""
    try:
        label = codecs.lookup(charset.strip("'\" ") or "ascii").name
        return data.decode(SUPERSETS.get(label, label) if label != "ascii" else "ascii")
    except (LookupError, UnicodeError, TypeError, AssertionError):
        pass
    try:
        return decode(data).text
    except ContentError:
        return data.decode("utf-8", "replace")


# --- bodies and attachments ------------------------------------------------------------


@dataclass(slots=True)
class _Parts:
    message: Message
    bodies: list[Message]
    attached: list[Message]
    encrypted: bool = False


def _plain_bytes(data: bytes) -> bytes:
    """The mail as bytes that are ASCII where they must be; a mail saved as UTF-16 is written anew."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or data[:512].count(0) > 50:
        try:
            return decode(data).text.encode("utf-8")
        except ContentError:
            return data
    if counted := _APPLE_COUNT.match(data):
        return data[counted.end() : counted.end() + int(counted[1])]
    return data.removeprefix(codecs.BOM_UTF8)


def _parts(blob: Blob, data: bytes) -> _Parts:
    if data.startswith(b"From "):
        data = data.partition(b"\n")[2]
    try:
        message = message_from_bytes(data.lstrip(b"\r\n"), policy=_RAW)
        parts = _Parts(message, [], [])
        _sort(message, parts, depth=0)
        if not parts.bodies and message in parts.attached and message.get_content_maintype() == "text":
            parts.bodies, parts.attached = [message], []  # an invitation or a table is the whole mail
    except (RecursionError, ValueError, LookupError, TypeError, AttributeError, IndexError) as error:
        raise CorruptContent(
            "parse.corrupt", name=blob.name, found="EML", reason=type(error).__name__
        ) from error
    return parts


def _children(part: Message) -> list[Message]:
    payload = part.get_payload()
    return cast("list[Message]", payload) if isinstance(payload, list) else []


def _sort(part: Message, parts: _Parts, *, depth: int) -> None:
    """Each part is a body, an attachment, or nothing to read (layout pictures, signatures)."""
    if depth > 50 or len(parts.bodies) + len(parts.attached) >= MAX_PARTS:
        return
    kind, children = part.get_content_type(), _children(part)
    if kind == "message/rfc822" and depth > 0:
        parts.attached.append(part)
    elif kind == "message/delivery-status":
        parts.bodies.append(part)  # why a mail came back, in fields
    elif kind == "multipart/alternative" and children:
        _sort_alternatives(children, parts, depth)
    elif children:
        parts.encrypted |= kind == "multipart/encrypted"
        for child in children:
            _sort(child, parts, depth=depth + 1)
    elif "pkcs7-mime" in kind and part.get_param("smime-type") != "signed-data":
        parts.encrypted = True
    elif _is_body(part):
        parts.bodies.append(part)
    elif not _is_layout(part):
        parts.attached.append(part)


def _sort_alternatives(children: list[Message], parts: _Parts, depth: int) -> None:
    """The better of the texts; what stands beside them (pictures, an invitation) is sorted as usual."""
    sorted_children: list[_Parts] = []
    for child in children:
        sorted_children.append(_Parts(child, [], []))
        _sort(child, sorted_children[-1], depth=depth + 1)
    texts = [found.bodies for found in sorted_children if found.bodies]
    if texts:
        parts.bodies += max(texts, key=_worth)
    for found in sorted_children:
        parts.attached += found.attached
        parts.encrypted |= found.encrypted


def _worth(bodies: list[Message]) -> tuple[bool, int]:
    """HTML with headings or tables, then the longer text; plain text counts as longer than it is."""
    read = [_body(part) for part in bodies]
    letters = sum(sum(map(str.isalnum, text)) for text, _ in read)
    structured = any(headings or "\n| --- |" in text for text, headings in read)
    plain = all(part.get_content_type() == "text/plain" for part in bodies)
    return structured and letters > 0, int(letters / SHORTER) if plain else letters


def _is_body(part: Message) -> bool:
    kind = part.get_content_type()
    # A part of many parts without any is the text that stands where they should.
    return kind in ("text/plain", "text/html", "text/enriched", "multipart/mixed") and not (
        part.get_content_disposition() == "attachment" or part.get_filename()
    )


def _is_layout(part: Message) -> bool:
    """Pictures that the HTML shows, and signatures."""
    kind = part.get_content_type()
    if kind in _SIGNATURES:
        return True
    shown = part.get("content-id") or part.get("content-location")
    looks = kind.startswith(("image/", "font/")) or kind in ("text/css", "text/javascript")
    return bool(shown) and looks and part.get_content_disposition() != "attachment"


def _body(part: Message) -> tuple[str, list[Heading]]:
    if part.get_content_type() == "message/delivery-status":
        fields = [f"{name}: {value}" for block in _children(part) for name, value in block.items()]
        return tidy_characters("\n".join(fields)), []
    data = _payload(part)
    if part.get_content_type() == "text/html":
        return _html_body(data, part.get_content_charset("") or "")
    return tidy_characters(_decoded(data, _charset(part))).strip("\n"), []


def _html_body(data: bytes, charset: str) -> tuple[str, list[Heading]]:
    from ragstone.parse.decode import Decoded
    from ragstone.parse.html import parse_html

    text = tidy_characters(_decoded(data, charset) if charset else decode(data).text)
    try:
        read = parse_html(Blob(uri="mail:", name="mail", data=data), Decoded(text=text, encoding="utf-8"))
    except ContentError:
        return "", []
    return read.text, [Heading(len(span.path), span.path[-1], span.start) for span in read.headings]


def _charset(part: Message) -> str:
    try:
        return part.get_content_charset("") or ""
    except (LookupError, ValueError):
        return ""


def _payload(part: Message) -> bytes:
    payload = part.get_payload(decode=True)
    if isinstance(payload, bytes):
        return payload
    text = part.get_payload()
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else b""


def _attached(part: Message, limit: int) -> bytes:
    children = _children(part)
    if part.get_content_type() == "message/rfc822" and children:
        return children[0].as_bytes(policy=_RAW.clone(max_line_length=0))[: limit + 1]
    return _payload(part)[: limit + 1]


def _file_name(part: Message, number: int) -> str:
    """The name an attachment is sent with, without folders; else one made from what it is."""
    raw = part.get_filename()
    name = decoded_header(collapse_rfc2231_value(raw)) if raw else ""
    name = PurePosixPath(name.replace("\\", "/")).name.strip()
    if name:
        return name
    if part.get_content_type() == "message/rfc822":
        children = _children(part)
        subject = decoded_header(children[0].get("subject", "")) if children else ""
        subject = re.sub(r"[/\\:]", "-", subject)[:100]
        return f"{subject or f'mail {number}'}.eml"
    return f"part {number}.{_SUFFIXES.get(part.get_content_type(), 'bin')}"


_SUFFIXES = {
    "text/plain": "txt", "text/html": "html", "text/calendar": "ics", "text/csv": "csv",
    "application/pdf": "pdf", "image/png": "png", "image/jpeg": "jpg", "image/gif": "gif",
}  # fmt: skip


# --- mailboxes -------------------------------------------------------------------------


def _split_mailbox(data: bytes) -> list[tuple[int, int]]:
    """Where each mail of a mailbox lies; empty when the file is one mail."""
    if not data.startswith(b"From "):
        return []
    starts = [
        match.start()
        for match in _FROM_LINE.finditer(data)
        if match.start() == 0
        or data[max(0, match.start() - 3) : match.start()].endswith((b"\n\n", b"\n\r\n"))
    ]
    if len(starts) < 2:
        return []
    return list(zip(starts, [*starts[1:], len(data)], strict=True))


def _mail_in_box(data: bytes, start: int, end: int, limit: int) -> bytes:
    mail = data[start:end].partition(b"\n")[2]
    return re.sub(rb"^>(>*From )", rb"\1", mail, flags=re.MULTILINE)[: limit + 1]


def _parse_mailbox(blob: Blob, data: bytes, mails: list[tuple[int, int]]) -> Document:
    lines: list[str] = []
    for number, (start, end) in enumerate(mails[:MAX_MEMBERS], 1):
        mail = _mail_in_box(data, start, min(end, start + MAIL_HEAD), MAIL_HEAD)
        head = _Head.of(message_from_bytes(mail, policy=_RAW))
        facts = " · ".join(filter(None, (head.date, head.sender, head.subject)))
        lines.append(f"- {number:05}.eml: {facts[:500]}")
    if len(mails) > len(lines):
        lines.append(f"... {len(mails) - len(lines):,} more")
    return document(blob, "\n".join(lines), media_type="application/mbox", title=blob.name)
