"""Where the embedded server listens: a socket in a private folder, or TCP on loopback."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ragstone.postgres.runtime import Account

ROLE = "ragstone"
DATABASE = "postgres"
PORT = 5432
_LOOPBACK = "127.0.0.1"
_SOCKET_NAME = f".s.PGSQL.{PORT}"
# sun_path of the kernel, less the closing zero byte.
_MAX_SOCKET_PATH = 107 if sys.platform == "linux" else 103


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """`folder` of the socket, or None for TCP on loopback at `port`."""

    folder: Path | None
    port: int

    def write(self, path: Path, account: Account) -> None:
        """Keep it for the processes that attach; in place at once."""
        write_private(path, f"{self.port}\n{self.folder or ''}\n", account)

    @classmethod
    def read(cls, path: Path) -> Endpoint:
        port, folder = path.read_text(encoding="utf-8").split("\n")[:2]
        return cls(folder=Path(folder) if folder else None, port=int(port))

    def socket_files(self) -> tuple[Path, ...]:
        """The socket and the server's lock beside it."""
        if self.folder is None:
            return ()
        return self.folder / _SOCKET_NAME, self.folder / f"{_SOCKET_NAME}.lock"

    def conninfo(self, password: str) -> str:
        """For libpq. On a socket the kernel says who connects; no password is sent."""
        values = {
            "host": str(self.folder or _LOOPBACK),
            "port": str(self.port),
            "user": ROLE,
            "dbname": DATABASE,
        }
        if self.folder is None:
            values |= {"password": password, "sslmode": "disable"}
        return " ".join(f"{name}={_quoted(value)}" for name, value in values.items())


def choose_endpoint(folder: Path, account: Account, *, tcp: bool = False) -> Endpoint:
    """A socket in `folder`; in a short folder elsewhere if the path is too long; else TCP."""
    if not tcp:
        for candidate in (folder / "run", *_short_folders(folder, account)):
            if _fits(candidate) and _make_private(candidate, account):
                return Endpoint(folder=candidate, port=PORT)
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        return Endpoint(folder=None, port=int(probe.getsockname()[1]))


def write_private(path: Path, text: str, account: Account) -> None:
    """Write a file that only the server's user (and root) can read, atomically."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(fd)
        if account.owner is not None:
            os.fchown(fd, *account.owner)
    new.replace(path)


def _fits(folder: Path) -> bool:
    # libpq reads a comma as the end of one host and the beginning of the next; a line end
    # would end the line of the file that tells others where the socket is.
    return (
        not any(char in str(folder) for char in ",\r\n")
        and len(os.fsencode(folder / _SOCKET_NAME)) <= _MAX_SOCKET_PATH
    )


def _short_folders(folder: Path, account: Account) -> list[Path]:
    name = f"ragstone-{account.uid}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}"
    roots = (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp")
    return [Path(root) / name for root in roots if root and Path(root).is_dir()]


def _make_private(folder: Path, account: Account) -> bool:
    """Make the folder if need be; False when it is not, or cannot be made, the server's alone."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError:
        return False
    else:
        if account.owner is not None:
            os.chown(folder, *account.owner, follow_symlinks=False)
    # In a shared folder such as /tmp another user may have made it first, or a link.
    status = folder.lstat()
    private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
    return private and status.st_uid == account.uid


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
