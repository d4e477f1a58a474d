"""A container on its way through ingestion, and how its members fare."""

from __future__ import annotations

import anyio

from ragstone.errors import MissingExtra, ParserFailed, PasswordRequired, RagstoneError
from ragstone.types import Blob, Remark

AGAIN, LOCKED = "/again", "/locked"
"""What stands behind the revision of a container whose members are not all there."""


class Family:
    """A container and how its members fare; `done` is set when the last of them has ended."""

    def __init__(self, blob: Blob) -> None:
        self.blob = blob
        self.uris: set[str] = set()
        self.failed = 0
        self.mark = ""
        self.whole = True
        self.warnings: list[Remark] = []
        self.done = anyio.Event()
        self._waiting = 1  # for the end of the list of members

    def member(self, uri: str) -> None:
        self.uris.add(uri)
        self._waiting += 1

    def ended(self, error: RagstoneError | None = None) -> None:
        """One more has ended; the mark says if a later run may do better."""
        if isinstance(error, (ParserFailed, MissingExtra)):
            self.mark = AGAIN
        elif isinstance(error, PasswordRequired) and not self.mark:
            self.mark = LOCKED
        self._waiting -= 1
        if not self._waiting:
            self.done.set()
