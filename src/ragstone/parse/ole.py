"""The old container of Office files (OLE, compound file): which program wrote it, and its streams."""

from __future__ import annotations

import io
import struct
from typing import Protocol, cast

from ragstone.errors import CorruptContent, PasswordRequired, UnsupportedContent
from ragstone.types import Blob, Document

MAX_STREAM = 200 * 1024 * 1024


class _File(Protocol):
    def listdir(self, streams: bool = True, storages: bool = False) -> list[list[str]]: ...
    def exists(self, filename: str) -> bool: ...
    def openstream(self, filename: str | list[str]) -> io.BytesIO: ...


class Container:
    """The streams of a compound file by their paths (`folder/name`).

    Raises:
        CorruptContent: it is damaged.
    """

    def __init__(self, blob: Blob, *, found: str = "OLE") -> None:
        self._blob, self.found = blob, found
        import olefile

        try:
            self._file = cast("_File", olefile.OleFileIO(io.BytesIO(blob.data)))
            self.names = tuple("/".join(path) for path in self._file.listdir())
        except (OSError, ValueError, IndexError, struct.error, TypeError, AttributeError) as error:
            raise self.corrupt(error) from error
        self._folded = {name.casefold(): name for name in self.names}

    def __contains__(self, name: str) -> bool:
        return name.casefold() in self._folded

    def read(self, name: str) -> bytes:
        """A stream; empty when it is not there."""
        real = self._folded.get(name.casefold())
        if real is None:
            return b""
        try:
            return self._file.openstream(real.split("/")).read(MAX_STREAM)
        except (OSError, ValueError, IndexError, struct.error, TypeError) as error:
            raise self.corrupt(error) from error

    def corrupt(self, reason: object) -> CorruptContent:
        text = " ".join(str(reason).split())[:200]
        return CorruptContent("parse.corrupt", name=self._blob.name, found=self.found, reason=text)


def parse_ole(blob: Blob, *, types: str) -> Document:
    """DOC, XLS, PPT and MSG; `types` names what is read, for the sentence that refuses the rest.

    Raises:
        PasswordRequired, CorruptContent, UnsupportedContent, NoText
    """
    try:
        container = Container(blob)
    except CorruptContent:
        if "EncryptedPackage".encode("utf-16-le") in blob.data:  # says what to do, damaged or not
            raise PasswordRequired("parse.password", name=blob.name) from None
        raise
    if "EncryptedPackage" in container or "EncryptionInfo" in container:
        raise PasswordRequired("parse.password", name=blob.name)
    if "WordDocument" in container:
        container.found = "DOC"
        from ragstone.parse.doc import parse_doc

        return parse_doc(blob, container)
    if "Workbook" in container or "Book" in container:
        from ragstone.parse.xls import parse_xls

        return parse_xls(blob)
    if "PowerPoint Document" in container:
        container.found = "PPT"
        from ragstone.parse.ppt import parse_ppt

        return parse_ppt(blob, container)
    if "__properties_version1.0" in container:
        container.found = "MSG"
        from ragstone.parse.msg import parse_msg

        return parse_msg(blob, container)
    raise UnsupportedContent("parse.not_read_yet", name=blob.name, found="OLE", types=types)
