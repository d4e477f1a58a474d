"""What a file seems to be, from its first bytes: enough to refuse it early, safe for any file.

The parser that reads it later has the last word.
"""

from __future__ import annotations

from ragstone.errors import NoText, UnsupportedContent
from ragstone.parse.archive import MEDIA_TYPES as ARCHIVES
from ragstone.parse.archive import archive_type
from ragstone.parse.decode import decode
from ragstone.parse.picture import MEDIA_TYPES as PICTURES
from ragstone.parse.picture import picture_type
from ragstone.parse.plugins import installed
from ragstone.parse.router import OLE_MAGIC, ZIP_MAGIC, is_pdf, refuse_unread, suffix_of
from ragstone.types import Blob

HEAD = 8_192
"""Bytes that are looked at."""

_OOXML = "application/vnd.openxmlformats-officedocument."
_ODF = "application/vnd.oasis.opendocument."
_ZIP_NAMES = {
    "docx": f"{_OOXML}wordprocessingml.document",
    "xlsx": f"{_OOXML}spreadsheetml.sheet",
    "pptx": f"{_OOXML}presentationml.presentation",
    "xlsb": "application/vnd.ms-excel.sheet.binary.macroenabled.12",
    "odt": f"{_ODF}text",
    "ods": f"{_ODF}spreadsheet",
    "odp": f"{_ODF}presentation",
    "epub": "application/epub+zip",
}
_OLE_NAMES = {
    "doc": "application/msword",
    "xls": "application/vnd.ms-excel",
    "ppt": "application/vnd.ms-powerpoint",
    "msg": "application/vnd.ms-outlook",
}
_TEXT_NAMES = {
    "md": "text/markdown",
    "markdown": "text/markdown",
    "html": "text/html",
    "htm": "text/html",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "json": "application/json",
    "xml": "application/xml",
    "eml": "message/rfc822",
    "fb2": "application/x-fictionbook+xml",
}


def sniff(head: bytes, name: str) -> str:
    """The media type of a file that begins with `head` (up to HEAD bytes are looked at).

    Raises:
        NoText: it is empty. UnsupportedContent: nothing reads it, and no plugin is asked.
    """
    if not head:
        raise NoText("load.empty", name=name)
    head, suffix = head[:HEAD], suffix_of(name)
    if found := _binary_type(head, suffix):
        return found
    try:
        refuse_unread(Blob(uri="", name=name, data=head))
        if b"\x00" in head:
            decode(head, name=name)
    except UnsupportedContent:
        if not installed():
            raise
        return "application/octet-stream"
    return _TEXT_NAMES.get(suffix, "text/plain")


def _binary_type(head: bytes, suffix: str) -> str:
    """Of the binary formats that are read; empty for others."""
    if is_pdf(head):
        return "application/pdf"
    if head.startswith(ZIP_MAGIC):
        return _ZIP_NAMES.get(suffix, "application/zip")
    if head.startswith(OLE_MAGIC):
        return _OLE_NAMES.get(suffix, "application/x-ole-storage")
    if head[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{\\rtf"):
        return "application/rtf"
    if found := archive_type(head):
        return ARCHIVES[found]
    if found := picture_type(head):
        return PICTURES.get(found, "application/octet-stream")
    return ""
