"""Which parser reads a blob. The content decides; the name only parts one text type from another."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from ragstone.errors import (
    CorruptContent,
    MissingExtra,
    NoText,
    PasswordRequired,
    UnsupportedContent,
)
from ragstone.parse.decode import Decoded, decode
from ragstone.parse.package import Package
from ragstone.parse.text import parse_markdown, parse_text
from ragstone.types import Blob, Document

READ_TODAY = "PDF, DOCX, XLSX, ODT, ODS, ODP, EPUB, HTML, Markdown, text"

_IMAGES = (
    (b"\x89PNG", "PNG"), (b"\xff\xd8\xff", "JPEG"), (b"GIF8", "GIF"), (b"BM", "BMP"),
    (b"II*\x00", "TIFF"), (b"MM\x00*", "TIFF"), (b"\x00\x00\x01\x00", "ICO"), (b"8BPS", "PSD"),
)  # fmt: skip
_ARCHIVES = (
    (b"\x1f\x8b", "gzip"), (b"BZh", "bzip2"), (b"\xfd7zXZ\x00", "xz"), (b"(\xb5/\xfd", "zstd"),
    (b"7z\xbc\xaf'\x1c", "7z"), (b"Rar!\x1a\x07", "RAR"),
)  # fmt: skip
_OTHERS = (
    (b"{\\rtf", "RTF"), (b"!BDN", "PST"), (b"SQLite format 3\x00", "SQLite"), (b"AT&TFORM", "DjVu"),
    (b"\x7fELF", "ELF"), (b"MZ\x90", "EXE"), (b"wOFF", "WOFF"), (b"ITSF", "CHM"),
)  # fmt: skip
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLE_STREAMS = (
    ("WordDocument", "DOC"), ("PowerPoint Document", "PPT"), ("Workbook", "XLS"), ("Book", "XLS"),
    ("__properties_version1.0", "MSG"),
)  # fmt: skip
_ODF = {
    b"application/vnd.oasis.opendocument.text": "ODT",
    b"application/vnd.oasis.opendocument.spreadsheet": "ODS",
    b"application/vnd.oasis.opendocument.presentation": "ODP",
    b"application/epub+zip": "EPUB",
}
# Names that promise a binary format. Text inside is a mistake, save for pages saved as .doc or .xls.
_BINARY_NAMES = frozenset({
    "pdf", "docx", "docm", "dotx", "xlsx", "xlsm", "xlsb", "pptx", "pptm", "odt", "ods", "odp", "epub",
    "doc", "xls", "ppt", "msg", "zip", "gz", "7z", "rar", "png", "jpg", "jpeg", "gif", "bmp", "tif",
    "tiff", "webp", "heic", "mp3", "mp4", "avi", "mov", "exe", "dll",
})  # fmt: skip
_MARKDOWN_NAMES = frozenset({"md", "markdown", "mdown", "mkd", "mdx", "qmd", "rmd"})
_HTML_NAMES = frozenset({"html", "htm", "xhtml", "shtml", "doc", "xls"})
_HTML_START = re.compile(
    r"\s*(<\?xml[^>]*\?>\s*)?(?:<!--(?:(?!-->).)*+-->\s*)*+<(!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_TAG = re.compile(r"</?[a-z][a-z0-9]{0,15}(\s[^<>]*)?/?>", re.IGNORECASE)
_MAIL_HEADER = re.compile(
    r"(?:from|to|subject|date|received|mime-version|message-id|return-path|delivered-to|reply-to|content-type):",
    re.IGNORECASE,
)


def parse(blob: Blob) -> Document:
    """Read `blob` with the parser its content asks for. Runs inside a worker process.

    Raises:
        UnsupportedContent: nothing here reads it; says what it looks like and what is read.
        CorruptContent: damaged, or not what its name says.
        PasswordRequired, NoText, ContentTooLarge: as they say.
        MissingExtra: `ragstone[parse]` is not installed.
    """
    if not blob.data:
        raise NoText("load.empty", name=blob.name)
    try:
        return _parse(blob)
    except ImportError as error:
        raise MissingExtra("core.missing_extra", feature=f"Reading {blob.name}", extra="parse") from error


def _parse(blob: Blob) -> Document:
    data = blob.data
    if _is_pdf(data):
        from ragstone.parse.pdf import parse_pdf

        return parse_pdf(blob)
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        return _parse_package(blob)
    if data.startswith(_OLE):
        raise _ole_error(blob)
    for table, error, key in (
        (_IMAGES, NoText, "parse.image"),
        (_ARCHIVES, UnsupportedContent, "parse.archive"),
        (_OTHERS, UnsupportedContent, "parse.not_read_yet"),
    ):
        if found := next((name for magic, name in table if data.startswith(magic)), ""):
            if found == "BMP" and b"\x00" not in data[:64]:
                continue  # a text that begins with BM
            raise error(key, name=blob.name, found=found, types=READ_TODAY)
    if data[8:12] == b"WEBP" or data[4:12] in (b"ftypheic", b"ftypavif", b"ftypmif1"):
        raise NoText("parse.image", name=blob.name, found="WebP" if data[8:12] == b"WEBP" else "HEIC")
    return _parse_textual(blob)


def _is_pdf(data: bytes) -> bool:
    """The mark stands first, or after some junk in a file that also ends as a PDF."""
    if data[:64].lstrip(b"\xef\xbb\xbf \t\r\n\x00").startswith(b"%PDF-"):
        return True
    return b"%PDF-" in data[:1024] and b"startxref" in data


def _parse_package(blob: Blob) -> Document:
    package = Package(blob)
    package.found = found = _package_type(package)
    if found == "DOCX":
        from ragstone.parse.docx import parse_docx

        return parse_docx(blob, package)
    if found in ("XLSX", "ODT", "ODS", "ODP", "EPUB"):
        from ragstone.parse.office import parse_office

        return parse_office(blob, package)
    if found == "ZIP":
        raise UnsupportedContent("parse.archive", name=blob.name, found=found)
    raise UnsupportedContent("parse.not_read_yet", name=blob.name, found=found, types=READ_TODAY)


def _package_type(package: Package) -> str:
    names = package.names
    kind = _ODF.get(package.read("mimetype", limit=1_000_000)[:100].strip().removesuffix(b"-template"))
    if kind:
        return kind
    if any(name.startswith("word/document") for name in names):
        return "DOCX"
    if "xl/workbook.bin" in names:
        return "XLSB"
    if "xl/workbook.xml" in names:
        return "XLSX"
    if "ppt/presentation.xml" in names:
        return "PPTX"
    if "META-INF/container.xml" in names and any(name.endswith(".opf") for name in names):
        return "EPUB"
    return "ZIP"


def _ole_error(blob: Blob) -> PasswordRequired | UnsupportedContent:
    """The old Office formats are not read yet; an encrypted one is said to be so."""
    data = blob.data
    word = data[512:514] == b"\xec\xa5" and data[523:524] != b"" and bool(data[523] & 1)
    if word or "EncryptedPackage".encode("utf-16-le") in data:
        return PasswordRequired("parse.password", name=blob.name)
    found = next((kind for stream, kind in _OLE_STREAMS if stream.encode("utf-16-le") in data), "OLE")
    return UnsupportedContent("parse.not_read_yet", name=blob.name, found=found, types=READ_TODAY)


def _parse_textual(blob: Blob) -> Document:
    suffix = PurePosixPath(blob.name.casefold()).suffix.lstrip(".")
    try:
        decoded = decode(blob.data, name=blob.name)
    except UnsupportedContent:
        if suffix in _BINARY_NAMES:
            raise CorruptContent("parse.misnamed", name=blob.name, claimed=suffix.upper()) from None
        raise
    if _is_html(decoded, suffix):
        from ragstone.parse.html import parse_html

        return parse_html(blob, decoded)
    if suffix in _BINARY_NAMES:
        raise CorruptContent("parse.misnamed", name=blob.name, claimed=suffix.upper())
    if suffix in ("eml", "mht", "mhtml") or _is_mail(decoded.text):
        raise UnsupportedContent("parse.not_read_yet", name=blob.name, found="EML", types=READ_TODAY)
    if suffix in _MARKDOWN_NAMES or blob.media_type == "text/markdown":
        return parse_markdown(blob, decoded)
    return parse_text(blob, decoded)


def _is_html(decoded: Decoded, suffix: str) -> bool:
    head = decoded.text[:8192]
    if suffix in _BINARY_NAMES - _HTML_NAMES:
        return False  # an error page saved in place of the file
    if suffix in _HTML_NAMES:
        return bool(_TAG.search(decoded.text))
    return bool(_HTML_START.match(head)) and suffix not in _MARKDOWN_NAMES


def _is_mail(text: str) -> bool:
    """Header lines of a mail, three of the usual ones, before the first blank line."""
    head = text[:8192].lstrip().partition("\n\n")[0].split("\n")
    if not head or not re.match(r"[A-Za-z-]+:\s|From \S+@", head[0]):
        return False
    return len({match[0].lower() for line in head if (match := _MAIL_HEADER.match(line))}) >= 3
