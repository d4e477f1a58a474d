"""Which files are containers, and what opens them. Runs inside a worker process, like `router.parse`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from ragstone.errors import CorruptContent, UnsupportedContent
from ragstone.parse import archive
from ragstone.parse.mail import MAIL_HEAD, is_mail, mail_entries
from ragstone.parse.members import Entry, refused, unpack
from ragstone.parse.router import OLE_MAGIC, ZIP_MAGIC, is_misnamed, is_pdf, package_type, suffix_of
from ragstone.types import Blob, LoadFailure

if TYPE_CHECKING:
    from ragstone.parse.msg import Message


def members(blob: Blob) -> Iterator[Blob | LoadFailure]:
    """Every member of an archive, mail, mailbox or PDF, see `members.unpack`; nothing for other files.

    Raises:
        ContentError: it is damaged or over a limit.
    """
    return unpack(blob, _entries)


def may_hold_members(blob: Blob) -> bool:
    """Whether it is worth asking `members`, by a look at the first bytes only: safe for any file."""
    data = blob.data
    if data.startswith(ZIP_MAGIC):
        # Office writes one of these first; a document that does not is found out later.
        return not (
            data[30:].startswith(b"[Content_Types].xml") or data[30:].startswith(b"mimetypeapplication/")
        )
    if archive.archive_type(data) or data.startswith(OLE_MAGIC) or b"%PDF-" in data[:1024]:
        return True
    return is_mail(data[:MAIL_HEAD].replace(b"\x00", b""), suffix_of(blob.name))


def _entries(blob: Blob) -> Iterable[Entry] | None:
    data = blob.data
    if data.startswith(ZIP_MAGIC):
        from ragstone.parse.package import Package

        is_archive = package_type(Package(blob)) == "ZIP" and not is_misnamed(blob.name)
        return archive.entries(blob, "ZIP") if is_archive else None
    if found := archive.archive_type(data):
        return archive.entries(blob, found)
    if is_pdf(data):
        return _pdf_entries(blob)
    if data.startswith(OLE_MAGIC):
        return _outlook_entries(blob) if "__properties_version1.0".encode("utf-16-le") in data else None
    return mail_entries(blob) if is_mail(data, suffix_of(blob.name)) else None


def _pdf_entries(blob: Blob) -> Iterator[Entry]:
    """The files embedded in a PDF. One that does not open has none: why is told where it is parsed."""
    import pypdfium2

    try:
        pdf: Any = pypdfium2.PdfDocument(blob.data)
    except pypdfium2.PdfiumError:
        return
    try:
        for number in range(pdf.count_attachments()):
            try:
                attachment: Any = pdf.get_attachment(number)
                name = cast("str", attachment.get_name())
            except pypdfium2.PdfiumError as error:
                yield refused(f"attachment {number + 1}", _damaged(f"attachment {number + 1}", error))
                continue
            path = PurePosixPath(name.replace("\\", "/")).name or f"attachment {number + 1}"
            yield Entry(path=path, read=partial(_pdf_read, attachment, path))
    finally:
        pdf.close()


def _pdf_read(attachment: Any, path: str, limit: int) -> bytes:
    import pypdfium2

    try:
        return bytes(attachment.get_data())[: limit + 1]
    except pypdfium2.PdfiumError as error:
        raise _damaged(path, error) from error


def _damaged(path: str, error: Exception) -> CorruptContent:
    return CorruptContent("parse.corrupt", name=path, found="PDF", reason=str(error).rstrip("."))


def _outlook_entries(blob: Blob) -> Iterator[Entry]:
    """The attachments of an Outlook message (MSG), laid out as MS-OXMSG says."""
    from ragstone.parse.msg import Message
    from ragstone.parse.ole import Container

    container = Container(blob, found="MSG")
    message = Message(container)
    for number, place in enumerate(message.attachments, 1):
        path = message.file_name(place) or f"part {number}.bin"
        if message.holds_data(place):
            yield Entry(path=path, read=partial(_outlook_file, message, place))
        elif (inner := message.within(place)) is not None:
            stem = PurePosixPath(inner.subject.replace("/", "-")).name[:100] or f"mail {number}"
            yield Entry(path=f"{stem}.eml", read=partial(_outlook_mail, blob, inner))
        else:  # an object of a program, such as a sheet pasted into the text
            yield refused(path, UnsupportedContent("parse.member_kind", name=path, found="OLE"))


def _outlook_file(message: Message, place: str, limit: int) -> bytes:
    return message.file(place)[: limit + 1]


def _outlook_mail(blob: Blob, message: Message, limit: int) -> bytes:
    return message.as_mail(blob).as_bytes()[: limit + 1]
