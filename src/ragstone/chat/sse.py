"""Server-sent events from bytes that come in pieces of any size (pure)."""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import NamedTuple


class ServerEvent(NamedTuple):
    event: str | None
    data: str


class EventReader:
    """Reads `text/event-stream` as WHATWG's HTML standard says, with one kindness.

    Lines end with LF, CRLF or CR; several `data` lines are joined by LF; comments are
    skipped; events without a `data` line are none. The kindness: a last event without a
    blank line behind it is still given, by `finish`.
    """

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._begun = False
        self._event: str | None = None
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[ServerEvent]:
        if b"\n" not in piece and b"\r" not in piece and not self._ends_in_cr():
            self._pending.append(piece)  # looked at once, when its line ends
            return []
        # A CR at the end may be the first half of a CRLF: it waits for what follows.
        lines = _lines(b"".join((*self._pending, piece)))
        self._pending = [lines.pop()]
        return [event for line in lines if (event := self._read(line)) is not None]

    def _ends_in_cr(self) -> bool:
        return bool(self._pending) and self._pending[-1].endswith(b"\r")

    def finish(self) -> list[ServerEvent]:
        events = self.feed(b"\n")
        last = self._read(b"")
        return [*events, last] if last is not None else events

    def _read(self, line: bytes) -> ServerEvent | None:
        if not self._begun:
            self._begun, line = True, line.removeprefix(BOM_UTF8)
        if not line:
            event = ServerEvent(self._event, "\n".join(self._data)) if self._data else None
            self._event, self._data = None, []
            return event
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        return None


def _lines(text: bytes) -> list[bytes]:
    """Split at LF, CRLF and CR; the last item is the unfinished line, with its CR if it ends in one."""
    held = b"\r" if text.endswith(b"\r") else b""
    body = text[: len(text) - len(held)]
    lines = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    lines[-1] += held
    return lines
