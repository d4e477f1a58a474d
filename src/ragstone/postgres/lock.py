"""Advisory locks on files. The kernel drops them with their last holder, however it died."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

_POLL_S = 0.02


class FileLock:
    """One open lock file. A process started with `fileno()` inherited holds the lock as well."""

    def __init__(self, path: Path, *, owner: tuple[int, int] | None = None) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if owner is not None:
            os.fchown(self._fd, *owner)

    def fileno(self) -> int:
        return self._fd

    def take(self, *, shared: bool = False, timeout: float = 0.0) -> bool:
        """Whether the lock was got within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(self._fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_POLL_S)
            else:
                return True

    def release(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of this process's hold; processes that inherited it keep theirs."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
