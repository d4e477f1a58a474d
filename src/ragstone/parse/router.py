"""Which parser reads a blob. The content decides; the name only parts one text type from another."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import PurePosixPath
from typing import TypeAlias, cast

from ragstone.errors import (
    CorruptContent,
    MissingExtra,
    NoText,
    UnsupportedContent,
)
from ragstone.parse.archive import archive_type, parse_archive
from ragstone.parse.decode import Decoded, decode
from ragstone.parse.delimited import NAMES as TABLE_NAMES
from ragstone.parse.delimited import find_delimiter, parse_delimited
from ragstone.parse.fiction import is_fiction, parse_fiction
from ragstone.parse.keyed import NAMES as JSON_NAMES
from ragstone.parse.keyed import parse_json
from ragstone.parse.mail import is_mail, parse_mail
from ragstone.parse.package import Package
from ragstone.parse.picture import parse_picture, picture_type
from ragstone.parse.plain_markup import NAMES as MARKUP_NAMES
from ragstone.parse.plain_markup import parse_plain_markup
from ragstone.parse.plugins import parse_by_plugin
from ragstone.parse.sheet_xml import is_sheet_xml, parse_sheet_xml
from ragstone.parse.text import parse_markdown, parse_text
from ragstone.parse.trust import check
from ragstone.parse.xml_text import NAMES as XML_NAMES
from ragstone.parse.xml_text import parse_xml
from ragstone.types import Blob, Document

PackageReader: TypeAlias = Callable[[Blob, Package], Document]

READ_TODAY = (
    "PDF, DOCX, DOC, RTF, ODT, XLSX, XLSB, XLS, ODS, CSV, PPTX, PPT, ODP, EPUB, FB2, MSG, EML, HTML, "
    "Markdown, JSON, XML, text, ZIP, TAR"
)

_ARCHIVES = (
    (b"(\xb5/\xfd", "zstd"), (b"7z\xbc\xaf'\x1c", "7z"), (b"Rar!\x1a\x07", "RAR"),
)  # fmt: skip
_OTHERS = (
    (b"!BDN", "PST"), (b"SQLite format 3\x00", "SQLite"), (b"AT&TFORM", "DjVu"),
    (b"\x7fELF", "ELF"), (b"MZ\x90", "EXE"), (b"wOFF", "WOFF"), (b"ITSF", "CHM"),
)  # fmt: skip
ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLD_SHEETS = (b"\x09\x04\x06\x00", b"\x09\x02\x06\x00", b"\x09\x00\x04\x00", b"\x09\x08\x08\x00\x00\x05")
"""How Excel files of before 1993, and those without a container, begin."""
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
_TABLE_BINARIES = frozenset({"xls", "xlsx", "xlsm", "xlsb"})
"""Of these, names under which programs save tables as text or XML."""
_MARKDOWN_NAMES = frozenset({"md", "markdown", "mdown", "mkd", "mdx", "qmd", "rmd"})
_HTML_NAMES = frozenset({"html", "htm", "xhtml", "shtml", "doc", "xls"})
_HTML_START = re.compile(
    r"\s*(<\?xml[^>]*\?>\s*)?(?:<!--(?:(?!-->).)*+-->\s*)*+<(!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_TAG = re.compile(r"</?[a-z][a-z0-9]{0,15}(\s[^<>]*)?/?>", re.IGNORECASE)


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
        document = parse_by_plugin(blob)
        return document if document is not None else _parse(blob)
    except ImportError as error:
        raise MissingExtra("core.missing_extra", feature=f"Reading {blob.name}", extra="parse") from error


def _parse(blob: Blob) -> Document:
    data = blob.data
    if is_pdf(data):
        from ragstone.parse.pdf import parse_pdf

        return parse_pdf(blob)
    if data.startswith(ZIP_MAGIC):
        return _trusted(blob, _parse_package(blob))
    if data.startswith(OLE_MAGIC):
        from ragstone.parse.ole import parse_ole

        return _trusted(blob, parse_ole(blob, types=READ_TODAY))
    if data.startswith(_OLD_SHEETS):
        from ragstone.parse.xls import parse_xls

        return _trusted(blob, parse_xls(blob))
    if data[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{\\rtf"):
        from ragstone.parse.rtf import parse_rtf

        return _trusted(blob, parse_rtf(blob))
    if found := archive_type(data):
        return parse_archive(blob, found)
    if found := picture_type(data):
        return parse_picture(blob, found)
    refuse_unread(blob)
    return _parse_textual(blob)


def _trusted(blob: Blob, document: Document) -> Document:
    """`document`, if its text is writing; text files were judged when they were decoded."""
    check(blob, document.text, document.media_type)
    return document


def refuse_unread(blob: Blob) -> None:
    """Raise UnsupportedContent for what nothing here reads, by its first bytes."""
    data = blob.data
    for table, error, key in (
        (_ARCHIVES, UnsupportedContent, "parse.archive"),
        (_OTHERS, UnsupportedContent, "parse.not_read_yet"),
    ):
        if found := next((name for magic, name in table if data.startswith(magic)), ""):
            raise error(key, name=blob.name, found=found, types=READ_TODAY)


def is_pdf(data: bytes) -> bool:
    """The mark stands first, or after some junk in a file that also ends as a PDF."""
    if data[:64].lstrip(b"\xef\xbb\xbf \t\r\n\x00").startswith(b"%PDF-"):
        return True
    return b"%PDF-" in data[:1024] and b"startxref" in data


_PACKAGE_READERS = {
    "DOCX": "docx", "XLSX": "xlsx", "XLSB": "xlsb", "PPTX": "pptx", "ODS": "ods", "ODT": "office",
    "ODP": "office",
    "EPUB": "office",
}  # fmt: skip
"""Type of a package -> the module here whose `parse_<module>` reads it; loaded when it is needed."""


def _parse_package(blob: Blob) -> Document:
    package = Package(blob)
    package.found = found = package_type(package)
    if module := _PACKAGE_READERS.get(found):
        reader = import_module(f"ragstone.parse.{module}")
        return cast("PackageReader", getattr(reader, f"parse_{module}"))(blob, package)
    if found == "ZIP":
        if is_misnamed(blob.name):
            raise CorruptContent("parse.misnamed", name=blob.name, claimed=suffix_of(blob.name).upper())
        return parse_archive(blob, found)
    raise UnsupportedContent("parse.not_read_yet", name=blob.name, found=found, types=READ_TODAY)


def suffix_of(name: str) -> str:
    return PurePosixPath(name.casefold()).suffix.lstrip(".")


def is_misnamed(name: str) -> bool:
    """Whether an archive of this name is a mistake: it promises a document."""
    return suffix_of(name) in _BINARY_NAMES - {"zip"}


def package_type(package: Package) -> str:
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


def _parse_textual(blob: Blob) -> Document:
    suffix, charset = suffix_of(blob.name), _charset(blob.media_type)
    blob = replace(blob, media_type=blob.media_type.partition(";")[0].strip().lower())
    if is_mail(blob.data, suffix):
        return parse_mail(blob)
    try:
        decoded = decode(blob.data, name=blob.name, charset=charset)
    except UnsupportedContent:
        if suffix in _BINARY_NAMES:
            raise CorruptContent("parse.misnamed", name=blob.name, claimed=suffix.upper()) from None
        raise
    if is_sheet_xml(decoded.text):
        return parse_sheet_xml(blob, decoded)
    if is_fiction(decoded.text):
        return parse_fiction(blob, decoded)
    if _is_html(decoded, suffix):
        from ragstone.parse.html import parse_html

        return parse_html(blob, decoded)
    if (found := _parse_structured(blob, decoded, suffix)) is not None:
        return found
    if suffix in _BINARY_NAMES:
        raise CorruptContent("parse.misnamed", name=blob.name, claimed=suffix.upper())
    if suffix in _MARKDOWN_NAMES or blob.media_type == "text/markdown":
        return parse_markdown(blob, decoded)
    return parse_text(blob, decoded)


def _charset(media_type: str) -> str:
    """The charset that a Content-Type names; empty where it names none."""
    match = re.search(r"""charset\s*=\s*["']?([\w.:-]+)""", media_type, re.IGNORECASE | re.ASCII)
    return match[1] if match else ""


def _parse_structured(blob: Blob, decoded: Decoded, suffix: str) -> Document | None:
    """JSON, XML and delimited tables, whatever their names; None for other text."""
    if suffix in _MARKDOWN_NAMES or blob.media_type == "text/markdown":
        return None
    if suffix in _BINARY_NAMES - _TABLE_BINARIES:
        return None  # a page saved in place of the file
    for parse_it, names in ((parse_json, JSON_NAMES), (parse_xml, XML_NAMES)):
        if (found := parse_it(blob, decoded, named=suffix in names)) is not None:
            return found
    is_table = suffix in TABLE_NAMES or blob.media_type in ("text/csv", "text/tab-separated-values")
    may_be = suffix in _TABLE_BINARIES or suffix in ("", "txt", "dat")
    if is_table or (may_be and find_delimiter(decoded.text, strict=True)):
        return parse_delimited(blob, decoded)
    if suffix in MARKUP_NAMES:
        return parse_plain_markup(blob, decoded, MARKUP_NAMES[suffix])
    return None


def _is_html(decoded: Decoded, suffix: str) -> bool:
    head = decoded.text[:8192]
    if suffix in _BINARY_NAMES - _HTML_NAMES:
        return False  # an error page saved in place of the file
    if suffix in _HTML_NAMES:
        return bool(_TAG.search(decoded.text))
    return bool(_HTML_START.match(head)) and suffix not in _MARKDOWN_NAMES
