"""ZIP, TAR and compressed files as containers, and the list of what one holds as its document."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePosixPath
from typing import IO, cast

from ragstone.errors import (
    ContentError,
    ContentTooLarge,
    CorruptContent,
    NoText,
    PasswordRequired,
    UnsupportedContent,
)
from ragstone.parse.decode import decode, tidy_characters
from ragstone.parse.members import MAX_MEMBERS, MAX_TOTAL_BYTES, Entry, refused, skipped_path
from ragstone.parse.outline import document
from ragstone.parse.unlock import passwords
from ragstone.types import Blob, Document, Remark

MEDIA_TYPES = {
    "ZIP": "application/zip",
    "TAR": "application/x-tar",
    "gzip": "application/gzip",
    "bzip2": "application/x-bzip2",
    "xz": "application/x-xz",
}
_PACKED = ((b"\x1f\x8b\x08", "gzip"), (b"BZh", "bzip2"), (b"\xfd7zXZ\x00", "xz"))
_AES = 99
"""The method that stands in the directory of a ZIP for members that WinZip's AES hides."""
_DAMAGE = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError,
    IndexError, OverflowError,
)  # fmt: skip


def archive_type(data: bytes) -> str:
    """TAR, gzip, bzip2 or xz by the first bytes; empty for others. A ZIP may be a document: see router."""
    for magic, found in _PACKED:
        if data.startswith(magic):
            return found
    return "TAR" if data[257:262] == b"ustar" else ""


def entries(blob: Blob, found: str) -> Iterator[Entry]:
    """The files in an archive of type `found`; folders are left out.

    Raises:
        CorruptContent: damaged; the entries before the damage came first.
        ContentTooLarge: a TAR unpacks to more than `MAX_TOTAL_BYTES`.
    """
    with _damage(blob.name, found):
        if found == "ZIP":
            yield from _zip_entries(blob)
        elif found == "TAR":
            yield from _tar_entries(blob, io.BytesIO(blob.data))
        else:
            yield from _unpacked_entries(blob, found)


def parse_archive(blob: Blob, found: str) -> Document:
    """A list of the names and sizes in an archive. Its members are documents of their own.

    Raises:
        NoText: it holds no files. CorruptContent, ContentTooLarge: before the first of them.
    """
    lines: list[str] = []
    warnings: list[Remark] = []
    count = 0
    try:
        for entry in entries(blob, found):
            path = entry.path.replace("\\", "/")
            if skipped_path(path):
                continue
            count += 1
            if count <= MAX_MEMBERS:
                size = f" ({entry.size:,} bytes)" if entry.size else ""
                lines.append(f"- {tidy_characters(path)[:1_000]}{size}")
    except (CorruptContent, ContentTooLarge):
        if not lines:
            raise
        warnings.append(Remark(key="parse.archive_cut", values={"name": blob.name, "count": count}))
    if not lines:
        raise NoText("parse.archive_empty", name=blob.name)
    if count > len(lines):
        lines.append(f"... {count - len(lines):,} more")
    return document(blob, "\n".join(lines), media_type=MEDIA_TYPES[found], title=blob.name, warnings=warnings)


@contextmanager
def _damage(name: str, found: str) -> Generator[None, None, None]:
    """What the libraries raise on a damaged archive, as ours."""
    try:
        yield
    except ContentError:
        raise
    except NotImplementedError as error:
        raise UnsupportedContent("parse.member_method", name=name) from error
    except RuntimeError as error:  # what zipfile raises for an encrypted member
        raise PasswordRequired("parse.password", name=name) from error
    except _DAMAGE as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise CorruptContent("parse.corrupt", name=name, found=found, reason=reason) from error


# --- ZIP ---------------------------------------------------------------------------


def _zip_entries(blob: Blob) -> Iterator[Entry]:
    archive = zipfile.ZipFile(io.BytesIO(blob.data))
    infos = [info for info in archive.infolist() if not info.is_dir()]
    for info, path in zip(infos, _zip_names(infos), strict=True):
        kind = (info.external_attr >> 16) & 0o170000 if info.create_system == 3 else 0
        if info.flag_bits & 0x1 and not passwords():
            yield refused(path, PasswordRequired("parse.password", name=path))
        elif kind not in (0, 0o100000):
            yield refused(path, UnsupportedContent("parse.member_link", name=path))
        else:
            yield Entry(
                path=path,
                read=partial(_zip_read, archive, info, path),
                size=info.file_size,
                packed=info.compress_size,
                modified=_time(*info.date_time),
            )


def _zip_read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str, limit: int) -> bytes:
    if info.flag_bits & 0x1:
        return _zip_unlock(archive, info, path, limit)
    with _damage(path, "ZIP"), archive.open(info) as part:
        return part.read(limit + 1)


def _zip_unlock(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str, limit: int) -> bytes:
    """An encrypted member, with the first of the passwords that opens it."""
    if info.compress_type == _AES:
        raise UnsupportedContent("parse.member_aes", name=path)
    for password in passwords():
        try:
            with archive.open(info, pwd=password.encode()) as part:
                return part.read(limit + 1)
        except (RuntimeError, zipfile.BadZipFile, zlib.error):
            continue  # one wrong password in 256 is found out only by what it unpacks to
    raise PasswordRequired("parse.password_wrong", name=path, count=len(passwords()))


def _zip_names(infos: Sequence[zipfile.ZipInfo]) -> list[str]:
    """Names in UTF-8 where the archive says so; others by what they look like, all of them together."""
    raw = [b"" if info.flag_bits & 0x800 else info.orig_filename.encode("cp437", "replace") for info in infos]
    read = iter(decode_names([name for name in raw if name]))
    names = [next(read) if name else info.filename for name, info in zip(raw, infos, strict=True)]
    return [name.partition("\x00")[0] or "?" for name in names]


def decode_names(raw: Sequence[bytes]) -> list[str]:
    """File names in one unknown encoding: UTF-8, a Chinese, Japanese or Korean one, else CP437."""
    joined = b"\n".join(raw)
    encoding = _encoding_of_names(joined)
    return [name.decode(encoding, "replace") for name in raw]


def _encoding_of_names(joined: bytes) -> str:
    if joined.isascii():
        return "ascii"
    try:
        text = joined.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    # Two bytes of GBK may look like one letter of Greek or Cyrillic in UTF-8.
    if text and (any(character >= "\u0800" for character in text) or not _is_common_chinese(joined)):
        return "utf-8"
    try:
        found = decode(joined)
    except UnsupportedContent:
        return "cp437"
    if _is_common_chinese(joined):
        return "gb18030"
    east_asian = found.encoding in ("gb18030", "big5hkscs", "cp932", "euc_jp", "cp949")
    # A lone ideograph between Latin letters is an accented letter read wrongly.
    pairs = re.search(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]{2}", found.text)
    return found.encoding if east_asian and pairs else "cp437"


def _is_common_chinese(joined: bytes) -> bool:
    """Only ASCII and the common characters and punctuation of GB 2312."""
    return re.fullmatch(rb"(?:[\x00-\x7f]|[\xa1-\xa3\xb0-\xd7][\xa1-\xfe])+", joined) is not None


def _time(year: int, month: int, day: int, hour: int, minute: int, second: int) -> datetime | None:
    try:
        return datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
    except ValueError:
        return None


# --- TAR and compressed files --------------------------------------------------------


class _Bounded(io.RawIOBase):
    """A stream that gives at most `MAX_TOTAL_BYTES`, whatever is skipped or read of it."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream, self._name, self._left = stream, name, MAX_TOTAL_BYTES

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        wanted = self._left + 1 if size < 0 else min(size, self._left + 1)
        data = self._stream.read(wanted)
        if len(data) > self._left:
            raise ContentTooLarge("parse.unpacked", name=self._name, limit=MAX_TOTAL_BYTES)
        self._left -= len(data)
        return data


def _opened(data: bytes, found: str) -> IO[bytes]:
    raw = io.BytesIO(data)
    if found == "gzip":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
    return cast("IO[bytes]", bz2.BZ2File(raw) if found == "bzip2" else lzma.LZMAFile(raw))


def _unpacked_entries(blob: Blob, found: str) -> Iterable[Entry]:
    with _opened(blob.data, found) as stream:
        head = stream.read(512)
    if archive_type(head) == "TAR":
        yield from _tar_entries(blob, _opened(blob.data, found))
        return

    def read(limit: int) -> bytes:
        with _damage(blob.name, found), _opened(blob.data, found) as stream:
            return stream.read(limit + 1)

    name = PurePosixPath(blob.name)
    inner = name.stem if name.suffix.casefold() in (".gz", ".bz2", ".xz", ".tgz") else f"{blob.name}.content"
    yield Entry(path=inner, read=read, packed=len(blob.data), modified=blob.modified)


def _tar_entries(blob: Blob, stream: IO[bytes]) -> Iterator[Entry]:
    bounded = cast("IO[bytes]", _Bounded(stream, blob.name))
    # Read as a stream, from front to back: each entry is read before the next is asked for.
    with tarfile.open(fileobj=bounded, mode="r|", bufsize=64 * 1024) as archive:
        for info in archive:
            raw = info.name.encode("utf-8", "surrogateescape")
            path = decode_names([raw])[0]
            if info.isdir():
                continue
            if not info.isreg() or info.issparse():
                yield refused(path, UnsupportedContent("parse.member_link", name=path))
                continue
            yield Entry(
                path=path,
                read=partial(_tar_read, archive, info, path),
                size=info.size,
                modified=_moment(info.mtime),
            )


def _tar_read(archive: tarfile.TarFile, info: tarfile.TarInfo, path: str, limit: int) -> bytes:
    with _damage(path, "TAR"):
        part = archive.extractfile(info)
        data = b"" if part is None else part.read(limit + 1)
    if len(data) < min(info.size, limit + 1):
        raise CorruptContent("parse.corrupt", name=path, found="TAR", reason="it is cut off")
    return data


def _moment(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
