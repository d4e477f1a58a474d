"""Keeps the converted model in a folder: whole or not at all, made by one process only.

A model is built in a sibling folder under a lock, flushed to the disk, listed with
sizes and hashes in `manifest.json`, and then renamed. What an interrupted build left
behind has another name and goes away with the next build.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

from ragstone.embed.convert import FILES, write_encoder, write_tokenizer
from ragstone.embed.weights import WEIGHTS_SHA256, locate_weights, read_weights
from ragstone.errors import ModelUnavailable

NAME = "multilingual-e5-small-int8-1"
IDENTITY = "multilingual-e5-small/int8/2"
MANIFEST = "manifest.json"

Progress: TypeAlias = Callable[[str, float], None]
"""Takes a message key of the `embed` area and the part that is done, 0 to 1."""

_ROOM = 140_000_000
_BUILDING = ".building-"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_POLL_SECONDS = 0.1


def ensure_converted(
    folder: Path, on_progress: Progress | None = None, check_cancelled: Callable[[], None] | None = None
) -> Path:
    """The folder of a whole converted model below `folder`; builds it when it is not there.

    Blocks for as long as another process builds it. `check_cancelled` is called while
    waiting and may raise.

    Raises:
        ModelUnavailable: the weights are not installed, or `folder` cannot be written,
            or its disk is full.
    """
    target = folder / NAME
    if is_whole(target):
        return target
    report = on_progress or _silent
    source = locate_weights()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / f".{NAME}.lock", report, check_cancelled or (lambda: None)):
            if not is_whole(target):
                _build(source, target, report)
    except OSError as error:
        key = "embed.disk_full" if error.errno in _FULL else "embed.folder_unwritable"
        reason = error.strerror or type(error).__name__
        raise ModelUnavailable(key, folder=folder, reason=reason, megabytes=_ROOM // 10**6) from error
    return target


def _silent(key: str, part: float) -> None:
    """Nobody watches."""


def is_whole(target: Path) -> bool:
    """Whether every file is as it was written.

    Sizes and times of change are looked at each time; where a time differs (a copied or
    a damaged file) the hashes decide (about 0.15 s), and are not asked again.
    """
    try:
        manifest: dict[str, Any] = json.loads((target / MANIFEST).read_text(encoding="utf-8"))
        if manifest["source"] != WEIGHTS_SHA256 or set(manifest["files"]) != set(FILES):
            return False
        files: dict[str, dict[str, Any]] = manifest["files"]
        stats = {name: (target / name).stat() for name in FILES}
        if any(stats[name].st_size != files[name]["size"] for name in FILES):
            return False
        changed = [name for name in FILES if stats[name].st_mtime_ns != files[name]["changed_ns"]]
        hashes = {name: str(files[name]["sha256"]) for name in FILES}
        if any(_hash(target / name) != hashes[name] for name in changed):
            return False
    except (OSError, ValueError, KeyError, TypeError):
        return False
    if changed:
        with suppress(OSError):  # In a folder that is only readable the hashes are asked each time.
            _write_manifest(target, hashes)
    return True


def _build(source: Path, target: Path, report: Progress) -> None:
    parent = target.parent
    for leftover in parent.glob(f"{_BUILDING}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    if shutil.disk_usage(parent).free < _ROOM:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    report("embed.converting", 0.0)
    building = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=parent))
    try:
        weights = read_weights(source)
        report("embed.converting", 0.1)
        write_encoder(weights, building, lambda part: report("embed.converting", 0.1 + 0.7 * part))
        write_tokenizer(weights, building)
        _write_manifest(building, {name: _hash(building / name) for name in FILES})
        report("embed.converting", 0.9)
        for name in (*FILES, MANIFEST, "."):
            _flush(building / name)
        building.chmod(0o755)
        if target.exists():
            target.rename(parent / f"{_BUILDING}damaged-{os.getpid()}-{time.time_ns()}")
        building.rename(target)
        _flush(parent)
    finally:
        for leftover in parent.glob(f"{_BUILDING}*"):
            shutil.rmtree(leftover, ignore_errors=True)
    report("embed.converting", 1.0)


def _write_manifest(folder: Path, hashes: dict[str, str]) -> None:
    stats = {name: (folder / name).stat() for name in FILES}
    files = {
        name: {"size": stats[name].st_size, "changed_ns": stats[name].st_mtime_ns, "sha256": hashes[name]}
        for name in FILES
    }
    manifest = {"identity": IDENTITY, "source": WEIGHTS_SHA256, "files": files}
    temporary = folder / f"{MANIFEST}.{os.getpid()}"
    temporary.write_text(json.dumps(manifest, indent=2), encoding="utf-8")
    temporary.replace(folder / MANIFEST)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    if path.is_dir() and sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY if sys.platform != "win32" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _locked(path: Path, report: Progress, check_cancelled: Callable[[], None]) -> Generator[None]:
    """Holds `path` against other processes; the system lets go of it when this one ends."""
    with path.open("a+b") as file:
        while not _try_lock(file):
            report("embed.waiting", 0.0)
            check_cancelled()
            time.sleep(_POLL_SECONDS)
        yield


def _try_lock(file: IO[bytes]) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EAGAIN, errno.EACCES, errno.EDEADLK}:
            return False
        raise
    return True
