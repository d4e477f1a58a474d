"""MSG (Outlook, [MS-OXMSG]): the message with its head. Attachments are members, see containers.py."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.header import Header
from email.mime.application import MIMEApplication
from email.mime.message import MIMEMessage
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.utils import format_datetime
from pathlib import PurePosixPath

from ragstone.errors import UnsupportedContent
from ragstone.metadata import MetadataValue
from ragstone.parse.decode import Decoded, decode, tidy_characters
from ragstone.parse.ole import Container
from ragstone.parse.outline import Outline, document
from ragstone.types import Blob, Document

MEDIA_TYPE = "application/vnd.ms-outlook"

_SUBJECT, _SENDER, _SENDER_ADDRESS, _SENDER_SMTP = "0037", "0C1A", "0C1F", "5D01"
_TO, _CC, _BODY, _HTML, _RTF, _NAME, _SHORT_NAME = "0E04", "0E03", "1000", "1013", "1009", "3707", "3704"
_ATTACHED = "3701"
_PROPERTIES = "__properties_version1.0"
MAX_WITHIN = 10
"""Messages within messages that are read."""
_PAGES, _TIMES = (0x3FDE, 0x3FFD), (0x0039, 0x0E06)

# What every compressed RTF may refer to before its own beginning ([MS-OXRTFCP] 2.1.2.1).
_RTF_START = (
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript "
    b"\\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par "
    b"\\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)


def parse_msg(blob: Blob, container: Container) -> Document:
    """Subject, sender, receivers, time and body of a message.

    Raises:
        CorruptContent, NoText
    """
    message = Message(container)
    subject, sender = message.subject, message.sender
    outline = Outline()
    outline.heading(1, subject)
    head = [("From", sender), ("To", message.text(_TO)), ("Cc", message.text(_CC))]
    if message.time is not None:
        head.append(("Date", f"{message.time:%Y-%m-%d %H:%M %Z}"))
    outline.block("\n".join(f"{name}: {value}" for name, value in head if value))
    outline.block(_body(blob, message))
    metadata: dict[str, MetadataValue] = {"author": sender} if sender else {}
    if message.time is not None:
        metadata["created"] = message.time
    names = [message.name_of(place) or "?" for place in message.attachments]
    if names:
        outline.block(f"Attachments: {', '.join(names)}")
    return document(
        blob,
        outline.text,
        media_type=MEDIA_TYPE,
        title=subject,
        headings=outline.headings,
        metadata=metadata,
    )


class Message:
    """The properties of a message, and the places (`__attach_version1.0_#...`) of its attachments.

    `root` is the storage of a message within the message, empty for the file's own.
    """

    def __init__(self, container: Container, root: str = "") -> None:
        self._container, self._root = container, root
        numbers = dict(_fixed(container.read(f"{root}{_PROPERTIES}"), 24 if root else 32))
        self.time = next((_time(numbers[name]) for name in _TIMES if name in numbers), None)
        pages = [int.from_bytes(numbers[name][:4], "little") for name in _PAGES if name in numbers]
        self._page = next((f"cp{page}" for page in pages if page not in (0, 1200)), "")
        names = (name.removeprefix(root) for name in container.names if name.startswith(root))
        folders = {name.partition("/")[0] for name in names}
        self.attachments = sorted(name for name in folders if name.startswith("__attach_version1.0"))

    @property
    def sender(self) -> str:
        name = self.text(_SENDER)
        address = self.text(_SENDER_SMTP) or self.text(_SENDER_ADDRESS)
        if "@" not in address or address == name:
            return name or address
        return f"{name} <{address}>" if name else address

    def text(self, name: str, place: str = "") -> str:
        """A property of text, in either of its encodings; empty when it is not there."""
        stem = self._root + (f"{place}/__substg1.0_{name}" if place else f"__substg1.0_{name}")
        wide = self._container.read(f"{stem}001F")
        if wide:
            return tidy_characters(wide.decode("utf-16-le", "replace")).strip("\x00")
        return self._narrow(self._container.read(f"{stem}001E")).strip("\x00")

    def name_of(self, place: str) -> str:
        """What the attachment at `place` is called: a file's name, or the subject of a message."""
        inner = self.within(place)
        return self.file_name(place) or (inner.subject if inner else "")

    def file_name(self, place: str) -> str:
        """The name of the attachment at `place`, without folders."""
        name = self.text(_NAME, place) or self.text(_SHORT_NAME, place)
        return PurePosixPath(name.replace("\\", "/")).name

    @property
    def subject(self) -> str:
        return self.text(_SUBJECT)

    def data(self, name: str) -> bytes:
        return self._container.read(f"{self._root}__substg1.0_{name}0102")

    def file(self, place: str) -> bytes:
        """The bytes of the attachment at `place`."""
        return self._container.read(f"{self._root}{place}/__substg1.0_{_ATTACHED}0102")

    def holds_data(self, place: str) -> bool:
        """Whether the attachment at `place` is a file."""
        return f"{self._root}{place}/__substg1.0_{_ATTACHED}0102" in self._container

    def within(self, place: str) -> Message | None:
        """The message that is the attachment at `place`, if it is one."""
        root = f"{self._root}{place}/__substg1.0_{_ATTACHED}000D/"
        return Message(self._container, root) if f"{root}{_PROPERTIES}" in self._container else None

    def as_mail(self, blob: Blob, depth: int = 0) -> MIMEMultipart:
        """The same message as mail, so that a message within a message is a file of its own."""
        mail = MIMEMultipart()
        fields = [("Subject", self.subject), ("From", self.sender), ("To", self.text(_TO))]
        for name, value in [*fields, ("Cc", self.text(_CC))]:
            if value:
                mail[name] = Header(value, "utf-8", maxlinelen=10_000).encode(linesep="")
        if self.time is not None:
            mail["Date"] = format_datetime(self.time)
        mail.attach(MIMEText(_body(blob, self), "plain", "utf-8"))
        for place in self.attachments if depth < MAX_WITHIN else ():
            if (inner := self.within(place)) is not None:
                mail.attach(MIMEMessage(inner.as_mail(blob, depth + 1)))
            elif self.holds_data(place):
                part = MIMEApplication(self.file(place))
                name = ("utf-8", "", self.file_name(place) or "part.bin")
                part.add_header("Content-Disposition", "attachment", filename=name)
                mail.attach(part)
        return mail

    def _narrow(self, data: bytes) -> str:
        if not data:
            return ""
        try:
            page = {"cp936": "gb18030", "cp950": "big5hkscs", "cp65001": "utf-8", "cp28591": "cp1252"}
            return tidy_characters(data.decode(page.get(self._page, self._page or "utf-8")))
        except (UnicodeDecodeError, LookupError):
            pass
        try:
            return decode(data).text
        except UnsupportedContent:
            return tidy_characters(data.decode("cp1252", "replace"))


def _fixed(data: bytes, start: int) -> Iterator[tuple[int, bytes]]:
    """(name, 8 bytes) of the properties of fixed size."""
    for place in range(start, len(data) - 15, 16):
        (tag,) = struct.unpack_from("<I", data, place)
        yield tag >> 16, data[place + 8 : place + 16]


def _time(data: bytes) -> datetime | None:
    """Tenths of microseconds since 1601, as Windows counts."""
    (value,) = struct.unpack("<Q", data)
    try:
        return datetime(1601, 1, 1, tzinfo=UTC) + timedelta(microseconds=value // 10)
    except OverflowError:
        return None


def _body(blob: Blob, message: Message) -> str:
    """The plain body, or what the HTML or RTF body says."""
    text = message.text(_BODY).strip()
    if text:
        return text
    if html := message.data(_HTML).rstrip(b"\x00"):
        return _html(blob, decode(html, name=blob.name))
    if (html_text := message.text(_HTML)).strip():
        return _html(blob, Decoded(text=html_text, encoding="utf-8"))
    if rtf := uncompressed(message.data(_RTF)):
        from ragstone.parse.rtf import read_rtf

        return read_rtf(blob, rtf)
    return ""


def _html(blob: Blob, decoded: Decoded) -> str:
    from ragstone.parse.html import parse_html

    return parse_html(blob, decoded).text if decoded.text.strip() else ""


def uncompressed(data: bytes) -> bytes:
    """RTF from its compressed form ([MS-OXRTFCP]); empty for what is neither form."""
    if len(data) < 16 or data[8:12] not in (b"LZFu", b"MELA"):
        return b""
    size = struct.unpack_from("<I", data, 4)[0]
    if data[8:12] == b"MELA":
        return data[16 : 16 + size]
    out = bytearray(_RTF_START)
    place = 16
    while place < len(data):
        control = data[place]
        place += 1
        for bit in range(8):
            if place >= len(data) or len(out) - len(_RTF_START) >= size:
                return bytes(out[len(_RTF_START) :])
            if not control >> bit & 1:
                out.append(data[place])
                place += 1
                continue
            reference = int.from_bytes(data[place : place + 2], "big")
            place += 2
            # The offset is a place in a ring of 4,096 bytes; where it says `here`, the text ends.
            back = (len(out) - (reference >> 4)) % 4096
            if back == 0 or back > len(out):
                return bytes(out[len(_RTF_START) :])
            for _ in range((reference & 15) + 2):
                out.append(out[-back])
    return bytes(out[len(_RTF_START) :])
