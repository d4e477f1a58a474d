"""One data folder and its server process: made, started, watched and stopped. Blocking.

State in `<home>/postgres`, all of it the server user's own:

    data/         the cluster; made as new/ and renamed when complete
    run/          the socket, mode 0700
    endpoint      where the running server listens
    password      for TCP
    server.log    what the server says
    start.lock    held by the process that starts or stops the server
    use.lock      shared by all processes that use it
    server.lock   held by the server and its children as long as one of them lives
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from ragstone.errors import ServerFailed, StoreFull, StoreIncompatible, StoreUnavailable
from ragstone.postgres.endpoint import ROLE, Endpoint, choose_endpoint, write_private
from ragstone.postgres.lock import FileLock
from ragstone.postgres.runtime import MAJOR, RUNTIME_FOLDER, Account, binaries, server_account

Report = Callable[[str, Mapping[str, object]], None]

# Waiting for another process to set up or recover, and for the server to replay its log.
_START_S = 300.0
# A start right after a kill -9 fails until the dead server's children are gone.
_GONE_S = 20.0
_STOP_S = 60.0
_QUIT_S = 10.0
_POLL_S = 0.01
_RETRY_AFTER_S = (0.5, 1.0, 2.0)
# PostgreSQL writes its log in files of 16 MB; less room than two of them is none.
_ROOM_BYTES = 32 * 2**20
_LOG_BYTES = 5 * 2**20
_QUOTED_LINES = 5

# Durable (fsync and synchronous_commit stay on) and small: a laptop, one user.
_SETTINGS = {
    "autovacuum": "on",
    "huge_pages": "off",
    "jit": "off",
    "lc_messages": "C",
    "log_checkpoints": "off",
    "log_timezone": "UTC",
    "logging_collector": "off",
    "max_connections": "50",
    "max_wal_senders": "0",
    "max_wal_size": "512MB",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "unix_socket_permissions": "0700",
    "wal_level": "minimal",
}
if sys.platform == "linux":
    # Files in the data folder: containers often have a tiny /dev/shm, and systemd
    # removes both other kinds when their user logs out.
    _SETTINGS["dynamic_shared_memory_type"] = "mmap"

_HBA = "local all all peer map=ragstone\nhost all all 127.0.0.1/32 scram-sha-256\n"


class Cluster:
    """The embedded server of one home, as seen by one of the processes that use it."""

    def __init__(self, home: Path, *, runtime_folder: Path = RUNTIME_FOLDER, tcp: bool = False) -> None:
        self.folder = home.absolute() / "postgres"
        self.data = self.folder / "data"
        self.log = self.folder / "server.log"
        self._tcp = tcp
        self._pid = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self._locks = ExitStack()
        # A file lock keeps other processes out, not other threads of this one.
        self._thread_lock = threading.Lock()
        with _room(self.folder):
            self.account = server_account(self.folder)
            self.bin = binaries(self.account, runtime_folder=runtime_folder)
            self._make_folder()
            self._start_lock = self._lock("start.lock")
            self._use_lock = self._lock("use.lock")

    def attach(self, report: Report) -> None:
        """Start the server unless it runs, and count as one of its users until `release`."""
        with self._starting():
            self._use_lock.take(shared=True, timeout=_START_S)
            self._ensure(report)

    def ensure_running(self) -> str:
        """The conninfo of the running server, started anew after a crash."""
        if self._start_lock.fileno() < 0:
            raise StoreUnavailable("postgres.closed")
        with _room(self.folder):
            # One that replays its log after a crash would refuse; the lock waits for it.
            pid, ready = self._pid_file()
            healthy = ready and pid is not None and self._alive() and self._is_server(pid)
        if not healthy:
            with self._starting():
                self._ensure(_silent)
        return self.conninfo()

    def conninfo(self) -> str:
        with _room(self.folder):
            password = (self.folder / "password").read_text(encoding="utf-8")
            return Endpoint.read(self.folder / "endpoint").conninfo(password)

    def release(self) -> None:
        """Stop using the server; the last user stops it. May be called twice."""
        # A fork of this process shares its locks; only the process itself may let go.
        if self._start_lock.fileno() < 0 or os.getpid() != self._pid:
            return
        try:
            with self._starting():
                self._use_lock.release()
                if self._use_lock.take():
                    self._stop()
        finally:
            if self._process is not None and self._process.poll() is None:
                # It serves others now and is no longer ours to wait for.
                self._process.returncode = 0
            self._locks.close()

    # --- locks ---

    def _lock(self, name: str) -> FileLock:
        lock = FileLock(self.folder / name, owner=self.account.owner)
        self._locks.callback(lock.close)
        return lock

    @contextmanager
    def _starting(self) -> Generator[None]:
        with self._thread_lock:
            if not self._start_lock.take(timeout=_START_S):
                raise StoreUnavailable("postgres.start_wait", folder=self.folder, seconds=int(_START_S))
            try:
                with _room(self.folder):
                    yield
            finally:
                self._start_lock.release()

    @contextmanager
    def _server_lock(self) -> Generator[FileLock]:
        lock = FileLock(self.folder / "server.lock", owner=self.account.owner)
        try:
            yield lock
        finally:
            lock.close()

    def _alive(self) -> bool:
        """Whether a server process of this folder lives, be it only a child of a dead one."""
        with self._server_lock() as lock:
            return not lock.take(shared=True)

    def _wait_gone(self, timeout: float) -> bool:
        with self._server_lock() as lock:
            return lock.take(shared=True, timeout=timeout)

    # --- start ---

    def _ensure(self, report: Report) -> None:
        if self._found_ready():
            return
        self._create(report)
        for delay in (*_RETRY_AFTER_S, None):
            reason = self._launch()
            if reason is None:
                return
            self._check_room(reason)
            if delay is None:
                raise ServerFailed("postgres.start_failed", reason=reason, log=self.log)
            time.sleep(delay)

    def _found_ready(self) -> bool:
        """Wait for a server that lives already to be ready; False when none lives any more."""
        began = time.monotonic()
        while self._alive():
            pid, ready = self._pid_file()
            running = pid is not None and self._is_server(pid)
            if ready and running:
                return True
            # Without a pid it is about to start; with a dead one its children are about to end.
            patience = _START_S if running or pid is None else _GONE_S
            if time.monotonic() - began > patience:
                raise ServerFailed("postgres.stuck", folder=self.folder, log=self.log)
            time.sleep(_POLL_S)
        return False

    def _launch(self) -> str | None:
        """One try to start the server; the reason if it failed."""
        if self._process is not None:
            self._process.poll()
        endpoint = choose_endpoint(self.folder, self.account, tcp=self._tcp)
        self._drop_stale(endpoint)
        # Before the start: if this process is killed meanwhile, the next one finds the server.
        endpoint.write(self.folder / "endpoint", self.account)
        for name, text in (("pg_hba.conf", _HBA), ("pg_ident.conf", self._ident())):
            write_private(self.data / name, text, self.account)
        self._process, quoted_from = self._spawn("postgres", lambda paths: self._arguments(endpoint, paths))
        return None if self._wait_ready(self._process) else self._quote(quoted_from)

    def _spawn(
        self, program: str, arguments: Callable[[_Paths], list[str]]
    ) -> tuple[subprocess.Popen[bytes], int]:
        """Run a PostgreSQL program away from the terminal, and where in the log its output begins."""
        user: dict[str, Any] = {}
        if self.account.switched:
            user = {"user": self.account.uid, "group": self.account.gid, "extra_groups": []}
        with self._server_lock() as lock, self._open_log() as log, _Paths(self.account) as paths:
            # Held by initdb too: if this process is killed, the next one waits for its end.
            if not lock.take(timeout=_GONE_S):
                raise ServerFailed("postgres.stuck", folder=self.folder, log=self.log)
            begin = log.tell()
            process = subprocess.Popen[bytes](
                [self.bin / program, *arguments(paths)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
                pass_fds=(lock.fileno(), *paths.fds),
                start_new_session=True,
                umask=0o077,
                **user,
            )
        return process, begin

    def _open_log(self) -> BinaryIO:
        if self.log.exists() and self.log.stat().st_size > _LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        # Root must not follow a link that the owner of the folder put there.
        fd = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        if self.account.owner is not None:
            os.fchown(fd, *self.account.owner)
        return os.fdopen(fd, "ab")

    def _arguments(self, endpoint: Endpoint, paths: _Paths) -> list[str]:
        listen: dict[str, str] = {"port": str(endpoint.port)}
        if endpoint.folder is None:
            listen |= {"listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
        else:
            quoted = paths.path(endpoint.folder).replace('"', '""')
            listen |= {"listen_addresses": "", "unix_socket_directories": f'"{quoted}"'}
        settings = _SETTINGS | listen
        return ["-D", paths.path(self.data), *(f"--{name}={value}" for name, value in settings.items())]

    def _wait_ready(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait until the new server accepts connections; False when it ended instead."""
        deadline = time.monotonic() + _START_S
        while process.poll() is None:
            if self._pid_file() == (process.pid, True):
                return True
            if time.monotonic() > deadline:
                raise StoreUnavailable("postgres.start_wait", folder=self.folder, seconds=int(_START_S))
            time.sleep(_POLL_S)
        return False

    # --- stop ---

    def _stop(self) -> None:
        pid, _ = self._pid_file()
        if pid is not None and self._alive() and self._is_server(pid):
            # Fast shutdown first; the immediate one replays its log at the next start.
            for number, patience in ((signal.SIGINT, _STOP_S), (signal.SIGQUIT, _QUIT_S)):
                os.kill(pid, number)
                if self._wait_gone(patience):
                    break
            self._drop_short_folder()
        if self._process is not None and not self._alive():
            self._process.wait(_QUIT_S)

    def _drop_short_folder(self) -> None:
        socket = Endpoint.read(self.folder / "endpoint").folder
        if socket is not None and socket.parent != self.folder:
            # Not empty when the server would not stop.
            with suppress(OSError):
                socket.rmdir()

    # --- the data folder ---

    def _make_folder(self) -> None:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._give(self.folder)

    def _give(self, path: Path) -> None:
        if self.account.owner is not None:
            os.chown(path, *self.account.owner, follow_symlinks=False)

    def _create(self, report: Report) -> None:
        """Run initdb where there is no cluster; one that was interrupted is begun again."""
        version = self.data / "PG_VERSION"
        if version.exists():
            found = version.read_text(encoding="ascii").strip()
            if found != str(MAJOR):
                raise StoreIncompatible(
                    "postgres.cluster_version", folder=self.data, found=found, wanted=MAJOR
                )
            return
        if self.data.exists() and any(self.data.iterdir()):
            raise ServerFailed("postgres.not_a_cluster", folder=self.data)
        report("postgres.first_start", {"folder": str(self.folder)})
        new = self.folder / "new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        self._give(new)
        self._initdb(new)
        new.replace(self.data)
        _sync(self.folder)

    def _initdb(self, new: Path) -> None:
        password = self.folder / "password"
        write_private(password, secrets.token_urlsafe(24), self.account)
        process, quoted_from = self._spawn("initdb", lambda paths: _initdb_arguments(paths, new, password))
        try:
            code = process.wait(_START_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise StoreUnavailable("postgres.start_wait", folder=self.folder, seconds=int(_START_S)) from None
        if code != 0:
            reason = self._quote(quoted_from)
            self._check_room(reason)
            raise ServerFailed("postgres.initdb_failed", folder=self.folder, reason=reason)

    def _ident(self) -> str:
        names = {"root", self.account.name}
        return "".join(f'ragstone "{name}" {ROLE}\n' for name in sorted(names))

    def _pid_file(self) -> tuple[int | None, bool]:
        """(process id, accepts connections) as the server wrote them."""
        try:
            lines = (self.data / "postmaster.pid").read_text(errors="replace").split("\n")
            pid = int(lines[0])
        except (FileNotFoundError, ValueError):
            return None, False
        return pid, len(lines) > 7 and lines[7].strip() == "ready"

    def _is_server(self, pid: int) -> bool:
        """Whether this process is the server of this folder, and not one that got its number since."""
        try:
            if sys.platform == "linux":
                return os.path.samestat(os.stat(f"/proc/{pid}/cwd"), self.data.stat())  # noqa: PTH116
            os.kill(pid, 0)
        except OSError:
            return False
        return True

    def _drop_stale(self, endpoint: Endpoint) -> None:
        """Remove what a killed server left; PostgreSQL keeps it if its number is in use again."""
        pid, _ = self._pid_file()
        if pid is None or not self._is_server(pid):
            (self.data / "postmaster.pid").unlink(missing_ok=True)
            for path in endpoint.socket_files():
                path.unlink(missing_ok=True)

    # --- failures ---

    def _quote(self, start: int) -> str:
        with self.log.open("rb") as log:
            log.seek(start)
            return _last_lines(log.read().decode(errors="replace"))

    def _check_room(self, reason: str) -> None:
        # The server says it in words only; the room that is left says it for certain.
        if shutil.disk_usage(self.folder).free < _ROOM_BYTES:
            raise StoreFull("postgres.disk_full", reason=reason)


def _initdb_arguments(paths: _Paths, new: Path, password: Path) -> list[str]:
    return [
        f"--pgdata={paths.path(new)}",
        f"--pwfile={paths.path(password)}",
        f"--username={ROLE}",
        "--encoding=UTF8",
        "--locale=C",
        # Text compares by code point, as in Python.
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--auth-local=peer",
        "--auth-host=scram-sha-256",
        "--no-instructions",
        # One flush of the file system in place of a thousand of files: seconds less.
        *(["--sync-method=syncfs"] if sys.platform == "linux" else []),
    ]


class _Paths:
    """Paths as the server's user can open them.

    That user may not be allowed to enter a folder above (root's home, a temporary
    folder); then it gets the file opened, and names it by its descriptor.
    """

    def __init__(self, account: Account) -> None:
        self._by_descriptor = account.switched and sys.platform == "linux"
        self.fds: list[int] = []

    def path(self, path: Path) -> str:
        if not self._by_descriptor:
            return str(path)
        self.fds.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        return f"/proc/self/fd/{self.fds[-1]}"

    def __enter__(self) -> _Paths:
        return self

    def __exit__(self, *error: object) -> None:
        for fd in self.fds:
            os.close(fd)


@contextmanager
def _room(folder: Path) -> Generator[None]:
    """Failures of the file system as our errors."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull("postgres.disk_full", reason=reason) from error
        raise ServerFailed("postgres.files", folder=error.filename or folder, reason=reason) from error


def _silent(key: str, values: Mapping[str, object]) -> None:
    """Report to nobody."""


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _last_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-_QUOTED_LINES:]) or "no output"
