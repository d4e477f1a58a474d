"""Files and folders as a stream of blobs.

Order is by name, so two runs over the same folder see the same stream. Left out without
a word: hidden files and folders (a leading dot, or the hidden attribute on Windows),
`__pycache__` and `node_modules`, and what programs leave behind: `~$name` lock files of
Office, `Thumbs.db`, `desktop.ini`, and macOS's `Icon\\r`. A file that is named directly
is always read. Links are followed (one that leads nowhere is passed over); a file or
folder reached twice is read once.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import anyio

from ragstone.errors import ContentError, ContentTooLarge, InputError, NoText, SourceNotFound
from ragstone.types import Blob, LoadFailure

MAX_BYTES = 50 * 1024 * 1024

SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules"})
SKIPPED_FILES = frozenset({"thumbs.db", "desktop.ini", "icon\r"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """How many files a source holds, and their bytes together: the ends of a progress bar."""

    files: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The uris of the files in a source, and those of its files and folders that cannot be looked at."""

    uris: frozenset[str]
    unreadable: tuple[str, ...] = ()


async def files(
    source: str, *, glob: str | None = None, recursive: bool = True, max_bytes: int = MAX_BYTES
) -> AsyncGenerator[Blob | LoadFailure, None]:
    """The file `source`, or every file in the folder `source`, one at a time, by name.

    `glob` keeps files whose name fits (`*.pdf`); with a slash it is held against the
    path below the folder, where `**` spans folders (`reports/**/*.md`). `{a,b}` and
    `[abc]` work; case is ignored. A file that cannot be read is a `LoadFailure` in the
    stream; the stream goes on.

    Raises:
        SourceNotFound: `source` does not exist.
        InputError: `glob` cannot be read.
    """
    found = await anyio.to_thread.run_sync(lambda: iter(_found(source, glob=glob, recursive=recursive)))

    def load_next() -> Blob | LoadFailure | None:
        path = next(found, None)
        return _load(path, max_bytes) if isinstance(path, Path) else path

    while (item := await anyio.to_thread.run_sync(load_next)) is not None:
        yield item


async def scan(source: str, *, glob: str | None = None, recursive: bool = True) -> Scan:
    """Count what `files` would yield, without reading it. Raises SourceNotFound."""

    def count() -> Scan:
        found = _found(source, glob=glob, recursive=recursive)
        sizes = [_size(path) if isinstance(path, Path) else 0 for path in found]
        return Scan(files=len(sizes), bytes=sum(sizes))

    return await anyio.to_thread.run_sync(count)


async def listing(source: str, *, glob: str | None = None, recursive: bool = True) -> Listing:
    """The uris that `files` would give, without reading a file. Raises SourceNotFound."""

    def look() -> Listing:
        found = list(_found(source, glob=glob, recursive=recursive))
        return Listing(
            uris=frozenset(path.as_uri() for path in found if isinstance(path, Path)),
            unreadable=tuple(item.uri for item in found if isinstance(item, LoadFailure)),
        )

    return await anyio.to_thread.run_sync(look)


def fits_glob(below: str, glob: str) -> bool:
    """Whether the file at path `below` its folder (with slashes) is one that `glob` keeps."""
    path = below if "/" in glob else below.rpartition("/")[2]
    return re.fullmatch(_pattern(glob), path, re.IGNORECASE) is not None


def source_uri(source: str) -> str:
    """The uri of a file or folder: the beginning of the uris of all files in it. Blocks."""
    return _root(source).as_uri()


def _root(source: str) -> Path:
    try:
        return _path(source).resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:  # missing, a loop of links, a NUL in the name
        shown = source.encode("utf-8", "backslashreplace").decode()
        if isinstance(error, OSError) and error.errno not in _ABSENT:
            raise SourceNotFound("load.unreadable", name=shown, reason=error.strerror) from error
        raise SourceNotFound("load.not_found", path=shown, folder=Path.cwd()) from error


def _found(source: str, *, glob: str | None, recursive: bool) -> Iterator[Path | LoadFailure]:
    root = _root(source)
    if not root.is_dir():
        return iter((root,))
    try:
        fits = re.compile(_pattern(glob), re.IGNORECASE) if glob else None
    except re.error as error:
        raise InputError("load.glob", glob=glob, reason=error.msg) from error
    return _walk(root, recursive=recursive, fits=fits, by_path="/" in (glob or ""))


def _path(source: str) -> Path:
    parts = urlsplit(source) if source.startswith("file:") else None
    path = Path(url2pathname(parts.path) if parts else source)
    return path.expanduser() if source.startswith("~") else path


def _walk(
    root: Path, *, recursive: bool, fits: re.Pattern[str] | None, by_path: bool
) -> Iterator[Path | LoadFailure]:
    """Paths of files below `root`, resolved, each once; a folder that cannot be listed is a failure."""
    seen: set[Path] = {root}
    # A stack, not recursion: folders may be nested deeper than Python recurses.
    stack: list[Iterator[tuple[Path, str] | LoadFailure]] = [_entries(root, "")]
    while stack:
        entry = next(stack[-1], None)
        if entry is None:
            stack.pop()
            continue
        if isinstance(entry, LoadFailure):
            yield entry
            continue
        path, below = entry
        resolved = _resolved(path)
        if isinstance(resolved, LoadFailure):
            yield resolved
            continue
        if resolved is None or resolved in seen:
            continue
        if resolved.is_dir():
            if recursive:
                seen.add(resolved)
                stack.append(_entries(resolved, f"{below}/"))
        elif fits is None or fits.fullmatch(below if by_path else path.name):
            seen.add(resolved)
            yield resolved


_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})


def _resolved(path: Path) -> Path | LoadFailure | None:
    """None for a link to nothing or to itself; what is there but cannot be reached is a failure."""
    try:
        # Below a resolved folder only a link needs resolving: a look at every part of the path.
        linked = os.name == "nt" or stat.S_ISLNK(path.lstat().st_mode)
        return path.resolve(strict=True) if linked else path
    except RuntimeError:  # a loop of links
        return None
    except OSError as error:
        # A folder without the right to enter it, or a disk that has gone, still names its files.
        return None if error.errno in _ABSENT else _unreadable(path, error)


def _entries(folder: Path, below: str) -> Iterator[tuple[Path, str] | LoadFailure]:
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        return iter((_unreadable(folder, error),))
    return iter([(Path(entry.path), below + entry.name) for entry in entries if not _skipped(entry)])


def skipped_name(name: str) -> bool:
    """Whether a file or folder of this name is left out without a word."""
    return name.startswith((".", "~$")) or name in SKIPPED_FOLDERS or name.casefold() in SKIPPED_FILES


def _skipped(entry: os.DirEntry[str]) -> bool:
    if skipped_name(entry.name):
        return True
    if os.name != "nt":
        return False
    attributes = getattr(entry.stat(follow_symlinks=False), "st_file_attributes", 0)
    return bool(attributes & stat.FILE_ATTRIBUTE_HIDDEN)


_GLOB = re.compile(r"\*\*/|\*\*|\*|\?|\[!?[^\]]+\]|\{[^{}]*\}|.", re.DOTALL)


def _pattern(glob: str) -> str:
    """`glob` as a regular expression."""

    def one(part: str) -> str:
        match part:
            case "**/":
                return "(?:[^/]+/)*"
            case "**":
                return ".*"
            case "*":
                return "[^/]*"
            case "?":
                return "[^/]"
            case _ if len(part) > 1 and part.startswith("["):
                inside = part[1:-1].replace("\\", r"\\")
                return f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]"
            case _ if len(part) > 1 and part.startswith("{"):
                return "(?:" + "|".join(_pattern(choice) for choice in part[1:-1].split(",")) + ")"
            case _:
                return re.escape(part)

    return "".join(one(part) for part in _GLOB.findall(glob))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _load(path: Path, max_bytes: int) -> Blob | LoadFailure:
    uri, name = path.as_uri(), _shown(path.name)
    try:
        return _read(path, uri=uri, name=name, max_bytes=max_bytes)
    except FileNotFoundError:
        return LoadFailure(uri=uri, name=name, error=ContentError("load.vanished", name=name))
    except OSError as error:
        # ENXIO is what opening a socket gives.
        if error.errno == errno.ENXIO:
            return LoadFailure(uri=uri, name=name, error=ContentError("load.special", name=name))
        return _unreadable(path, error)


def _unreadable(path: Path, error: OSError) -> LoadFailure:
    name, reason = _shown(path.name), error.strerror or type(error).__name__
    return LoadFailure(
        uri=path.as_uri(), name=name, error=ContentError("load.unreadable", name=name, reason=reason)
    )


def _read(path: Path, *, uri: str, name: str, max_bytes: int) -> Blob | LoadFailure:
    # Without O_NONBLOCK, opening a pipe waits for a writer, perhaps for ever.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as file:  # noqa: PTH123 (a descriptor, not a path)
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return LoadFailure(uri=uri, name=name, error=ContentError("load.special", name=name))
        if status.st_size > max_bytes:
            error = ContentTooLarge("load.too_large", name=name, size=status.st_size, limit=max_bytes)
            return LoadFailure(uri=uri, name=name, error=error)
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:  # it grew while it was read
        error = ContentTooLarge("load.too_large", name=name, size=len(data), limit=max_bytes)
        return LoadFailure(uri=uri, name=name, error=error)
    if not data:
        return LoadFailure(uri=uri, name=name, error=NoText("load.empty", name=name))
    return Blob(uri=uri, name=name, data=data, modified=datetime.fromtimestamp(status.st_mtime, UTC))


def _shown(name: str) -> str:
    """A name that can be printed and stored, even where its bytes are not UTF-8."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raw = os.fsencode(name)
        try:
            return raw.decode("gb18030")
        except UnicodeDecodeError:
            return raw.decode("utf-8", "replace")
    return name
