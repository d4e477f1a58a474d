"""Zip packages (DOCX, XLSX, ODF, EPUB) opened with care: what they unpack to is bounded."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from xml.etree import ElementTree

from ragstone.errors import ContentTooLarge, CorruptContent, PasswordRequired
from ragstone.types import Blob

MAX_UNPACKED = 200 * 1024 * 1024
"""Bytes all parts of a package may unpack to together; one that claims or gives more is a bomb."""


class Package:
    """The parts of a zip file, read one at a time within a limit.

    Raises:
        CorruptContent: no zip file, or damaged.
        ContentTooLarge: its directory claims more than `MAX_UNPACKED` bytes.
    """

    def __init__(self, blob: Blob, *, found: str = "ZIP") -> None:
        self._blob, self.found = blob, found
        self._left = MAX_UNPACKED
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(blob.data))
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
            raise self._corrupt(error) from error
        # Some programs part folders as Windows does.
        self._members = {info.filename.replace("\\", "/"): info for info in self._zip.infolist()}
        self.names = frozenset(self._members)

    def check_size(self) -> None:
        if sum(info.file_size for info in self._zip.infolist()) > MAX_UNPACKED:
            raise ContentTooLarge("parse.unpacked", name=self._blob.name, limit=MAX_UNPACKED)

    def read(self, name: str, *, limit: int = MAX_UNPACKED) -> bytes:
        """One part; empty when it is not there. The directory may lie, so the limit counts real bytes."""
        if name not in self.names:
            return b""
        allowed = min(limit, self._left)
        if self._members[name].file_size > allowed:
            raise ContentTooLarge("parse.unpacked", name=self._blob.name, limit=min(limit, MAX_UNPACKED))
        try:
            with self._zip.open(self._members[name]) as part:
                data = part.read(allowed + 1)
        except RuntimeError as error:  # what zipfile raises for an encrypted part
            raise PasswordRequired("parse.password", name=self._blob.name) from error
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
            raise self._corrupt(error) from error
        if len(data) > allowed:
            raise ContentTooLarge("parse.unpacked", name=self._blob.name, limit=min(limit, MAX_UNPACKED))
        self._left -= len(data)
        return data

    def xml(self, name: str) -> ElementTree.Element | None:
        """A part as a tree, None when it is not there."""
        data = self.read(name)
        if not data:
            return None
        self._refuse_entities(data)
        try:
            return ElementTree.fromstring(data)
        except ElementTree.ParseError as error:
            raise self._corrupt(error) from error

    def items(self, name: str) -> list[ElementTree.Element]:
        """What stands in the root of a part; nothing when the part is not there."""
        root = self.xml(name)
        return [] if root is None else list(root)

    def children(self, name: str, depth: int) -> Iterator[ElementTree.Element]:
        """Elements at `depth` (the root is 1) of a part, one at a time, so that memory stays small."""
        return self.elements(self.read(name), depth)

    def elements(self, data: bytes, depth: int) -> Iterator[ElementTree.Element]:
        """The same of a part that has been read."""
        level = 0
        self._refuse_entities(data)
        try:
            for event, element in ElementTree.iterparse(io.BytesIO(data), events=("start", "end")):
                if event == "start":
                    level += 1
                else:
                    if level == depth:
                        yield element
                        element.clear()
                    level -= 1
        except ElementTree.ParseError as error:
            raise self._corrupt(error) from error

    def _refuse_entities(self, data: bytes) -> None:
        # Office writes UTF-8 without a document type; entities in one are an attack.
        if b"<!DOCTYPE" in data[:4096] or b"<!ENTITY" in data or b"\x00" in data[:64]:
            raise self._corrupt("its XML declares entities")

    def _corrupt(self, reason: object) -> CorruptContent:
        return CorruptContent("parse.corrupt", name=self._blob.name, found=self.found, reason=str(reason))


def local(element: ElementTree.Element) -> str:
    """An element's name without its namespace (transitional and strict files use different ones)."""
    return element.tag.rpartition("}")[2]


def attribute(element: ElementTree.Element | None, name: str) -> str:
    """An attribute by its name without namespace; empty when it is not there."""
    if element is None:
        return ""
    return next((value for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")


def child(element: ElementTree.Element | None, *path: str) -> ElementTree.Element | None:
    """The first descendant along `path` of names without namespace."""
    for name in path:
        if element is None:
            return None
        element = next((item for item in element if local(item) == name), None)
    return element


def each(element: ElementTree.Element | None) -> Iterator[ElementTree.Element]:
    """The children of an element that may not be there."""
    return iter(() if element is None else element)
