"""What a container holds, one entry at a time and within limits.

Formats give `Entry` objects (archive.py, mail.py, ...); `unpack` turns them into blobs.
Nothing is ever written to disk, so a name that leads out of its archive can do no harm;
it is refused all the same, since nobody means it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from urllib.parse import quote

from ragstone.errors import ContentError, ContentTooLarge, NoText, UnsupportedContent
from ragstone.load.files import skipped_name
from ragstone.types import MEMBER_MARK, Blob, LoadFailure

MAX_DEPTH = 3
"""Containers within containers that are opened: a mail in an archive in an archive still is."""

MAX_MEMBERS = 1_000
"""Members of one file, of all levels together."""

MAX_MEMBER_BYTES = 50 * 1024 * 1024
MAX_TOTAL_BYTES = 500 * 1024 * 1024
"""Bytes of all members of one file, of all levels together."""

MAX_RATIO = 200
FREE_BYTES = 1024 * 1024
"""Text packs up to about 1:50, zeros 1:1000. Members up to `FREE_BYTES` may have any ratio."""

MAX_URI_BYTES = 1_800
"""Below what a store takes, so that a name too long costs one member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One member: `path` within its container, `size` as claimed (0 where unknown).

    `read(limit)` gives its bytes, at most one more than `limit`, and raises ContentError
    where it cannot be read. `packed` is the room it takes in the container, 0 if unknown.
    """

    path: str
    read: Callable[[int], bytes] = field(repr=False)
    size: int = 0
    packed: int = 0
    media_type: str = ""
    modified: datetime | None = None


def refused(path: str, error: ContentError) -> Entry:
    """An entry whose reading gives `error`."""

    def read(_: int) -> bytes:
        raise error

    return Entry(path=path, read=read)


Opener = Callable[[Blob], "Iterable[Entry] | None"]
"""The entries of a container; None for what is none. Raises ContentError if it is damaged."""


def unpack(blob: Blob, open_container: Opener) -> Iterator[Blob | LoadFailure]:
    """Every member of `blob`, those of containers within it behind their own container.

    Each has the uri `<container>!/<path>`, its file's name, and the metadata `container`.
    Members that cannot be read are failures; the others go on.

    Raises:
        ContentError: the container is damaged or over a limit; members after the damage
            are not in the stream.
    """
    yield from _Unpacking(open_container).members(blob, blob.name, depth=1)


class _Unpacking:
    """One file with what may still be unpacked of it."""

    def __init__(self, open_container: Opener) -> None:
        self._open = open_container
        self._members, self._bytes = MAX_MEMBERS, MAX_TOTAL_BYTES

    def members(self, blob: Blob, shown: str, *, depth: int) -> Iterator[Blob | LoadFailure]:
        entries = self._open(blob)
        if entries is None:
            return
        used: set[str] = set()
        for entry in entries:
            path = entry.path.replace("\\", "/")
            if skipped_path(path):
                continue
            if self._members == 0:
                raise ContentTooLarge("parse.members_many", name=blob.name, limit=MAX_MEMBERS)
            self._members -= 1
            path = unused(path, used)
            uri, name = f"{blob.uri}{MEMBER_MARK}{_quoted(path)}", f"{shown}{MEMBER_MARK}{path}"
            try:
                child = self._child(entry, path, uri, name, shown, depth)
            except ContentError as error:
                yield LoadFailure(uri=_short(uri), name=name, error=error)
            else:
                yield child
                yield from self._within(child, name, depth=depth + 1)

    def _child(self, entry: Entry, path: str, uri: str, name: str, shown: str, depth: int) -> Blob:
        if _leads_out(path):
            raise UnsupportedContent("parse.member_path", name=name)
        if len(uri.encode("utf-8", "replace")) > MAX_URI_BYTES:
            raise UnsupportedContent("parse.member_name", name=f"{name[:80]}...", limit=MAX_URI_BYTES)
        if depth > MAX_DEPTH:
            raise ContentTooLarge("parse.member_deep", name=name, limit=MAX_DEPTH)
        data = self._read(entry, name)
        metadata = {"container": shown}
        return Blob(
            uri=uri,
            name=PurePosixPath(path).name,
            data=data,
            media_type=entry.media_type,
            modified=entry.modified,
            metadata=metadata,
        )

    def _read(self, entry: Entry, name: str) -> bytes:
        limit = min(MAX_MEMBER_BYTES, self._bytes)
        self._check(entry, entry.size, name, limit)
        data = entry.read(limit)
        self._bytes -= min(len(data), self._bytes)
        self._check(entry, len(data), name, limit)
        if not data:
            raise NoText("load.empty", name=name)
        return data

    def _check(self, entry: Entry, size: int, name: str, limit: int) -> None:
        if entry.packed and size > FREE_BYTES and size > MAX_RATIO * entry.packed:
            raise ContentTooLarge("parse.member_bomb", name=name, size=size, packed=entry.packed)
        if size > MAX_MEMBER_BYTES:
            raise ContentTooLarge("parse.unpacked", name=name, limit=MAX_MEMBER_BYTES)
        if size > limit:
            raise ContentTooLarge("parse.members_large", name=name, limit=MAX_TOTAL_BYTES)

    def _within(self, child: Blob, shown: str, *, depth: int) -> Iterator[Blob | LoadFailure]:
        """The members of a member. Damage is told where it is parsed; only the count ends everything."""
        try:
            yield from self.members(child, shown, depth=depth)
        except ContentError:
            if self._members == 0:
                raise


# --- names -------------------------------------------------------------------------


def skipped_path(path: str) -> bool:
    """Whether a folder of these names would be left out too: hidden files and what programs leave behind."""
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    return path.endswith("/") or any(part == "__MACOSX" or skipped_name(part) for part in parts)


def unused(path: str, used: set[str]) -> str:
    """`path`, with a number where an entry of this name was before: `report (2).pdf`."""
    pure, number = PurePosixPath(path), 1
    while path in used:
        number += 1
        path = str(pure.with_name(f"{pure.stem} ({number}){pure.suffix}")) if pure.name else f"({number})"
    used.add(path)
    return path


def _leads_out(path: str) -> bool:
    drive = len(path) > 1 and path[1] == ":" and path[0].isalpha()
    return path.startswith("/") or drive or ".." in path.split("/") or not PurePosixPath(path).name


def _quoted(path: str) -> str:
    return quote(path.encode("utf-8", "replace"))


def _short(uri: str) -> str:
    return uri if len(uri) <= MAX_URI_BYTES else f"{uri[:MAX_URI_BYTES]}..."
