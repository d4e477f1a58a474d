"""What is shown while a command works: on standard error, bars on a terminal only."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from ragstone.cli.terminal import Terminal, shortened, visible
from ragstone.cli.words import say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.progress import Progress, TaskID

    from ragstone.ingest import IngestEvent
    from ragstone.kb.evaluation import EvaluationEvent
    from ragstone.kb.facade import Found
    from ragstone.kb.reindex import ReindexEvent


WAITING_S = 3.0
"""How long an answer may be silent before a person is told that it is awaited."""


class _Notice(Protocol):
    """`ragstone.kb.bootstrap.Notice`, which is not imported here: it brings the database with it."""

    @property
    def key(self) -> str: ...
    @property
    def values(self) -> Mapping[str, object]: ...
    @property
    def fraction(self) -> float | None: ...


class StillWaiting:
    """Says on a terminal that the answer is still awaited, when nothing of it has come for some seconds."""

    def __init__(self, terminal: Terminal, *, seconds: float = WAITING_S) -> None:
        self._timer: threading.Timer | None = None
        if sys.stderr.isatty():
            self._timer = threading.Timer(seconds, lambda: terminal.note(say("cli.still_waiting")))
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        """Called when the first word is there."""
        if self._timer is not None:
            self._timer.cancel()

    def __enter__(self) -> StillWaiting:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


class Notices:
    """Shows a long wait as it comes: a line with a bar on a terminal, else one plain line."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._shown: dict[str, TaskID | None] = {}
        self._display: Progress | None = None

    @property
    def live(self) -> bool:
        """Whether standard error is a terminal that can be redrawn."""
        return sys.stderr.isatty() and self._terminal.err.is_terminal

    def __call__(self, notice: _Notice) -> None:
        sentence = say(notice.key, **notice.values)
        if not self.live:
            if notice.key not in self._shown:
                self._shown[notice.key] = None
                with suppress(OSError):
                    self._terminal.note(sentence)
            return
        display = self.display()
        task = self._shown.get(notice.key)
        if task is None:
            task = self._shown[notice.key] = display.add_task(visible(sentence), total=None, facts="")
        if notice.fraction is not None:
            display.update(task, description=visible(sentence), total=1.0, completed=notice.fraction)

    def display(self) -> Progress:
        """The display, started at first need."""
        if self._display is None:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._display = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[facts]}", markup=False),
                TimeElapsedColumn(),
                console=self._terminal.err,
                transient=True,
            )
            self._display.start()
        return self._display

    def close(self) -> None:
        """Take the display away; what comes next may print."""
        if self._display is not None:
            self._display.stop()
            self._display = None
            self._shown.clear()


class AddProgress:
    """Files done and found, chunks, chunks a second, time left, the last file."""

    def __init__(self, notices: Notices, *, sentence: str = "cli.add_files", found: int = 0) -> None:
        self._notices = notices
        self._sentence = sentence
        self._task: TaskID | None = None
        self._files = self._chunks = 0
        self._found = found
        self._name = self._pages = ""
        self._started = time.perf_counter()

    def __call__(self, event: Found | IngestEvent | ReindexEvent) -> None:
        from ragstone.ingest import ChunksEmbedded, FileResult, PagesRead
        from ragstone.kb.reindex import ToBuild

        if isinstance(event, FileResult):
            self._files += 1
            self._name, self._pages = event.name, ""
        elif isinstance(event, ChunksEmbedded):
            self._chunks += event.chunks
        elif isinstance(event, ToBuild):
            self._found = self._files + event.documents
        elif isinstance(event, PagesRead):
            self._name = event.name
            self._pages = say("cli.add_pages", done=event.done, pages=event.pages)
        else:
            self._found = event.files
            self._started = time.perf_counter()
        if self._notices.live:
            self._draw()

    def _draw(self) -> None:
        display = self._notices.display()
        if self._task is None:
            self._task = display.add_task("", total=self._found or None, facts="")
        display.update(
            self._task,
            description=say(self._sentence, done=self._files, found=self._found),
            completed=self._files,
            total=max(self._found, self._files) or None,
            facts=self._facts(),
        )

    def _facts(self) -> str:
        seconds = max(time.perf_counter() - self._started, 1e-6)
        facts = [say("cli.add_chunks", chunks=self._chunks, rate=self._chunks / seconds)]
        if 0 < self._files < self._found:
            left = seconds / self._files * (self._found - self._files)
            facts.append(say("cli.add_left", time=clock(left)))
        if self._name:
            facts.append(f"{visible(shortened(self._name, 32))} {self._pages}".rstrip())
        return " · ".join(facts)


class Counted:
    """So many done of so many, in a sentence with `done` and `total`."""

    def __init__(self, notices: Notices, *, sentence: str) -> None:
        self._notices = notices
        self._sentence = sentence
        self._task: TaskID | None = None

    def __call__(self, done: int, total: int) -> None:
        if not self._notices.live:
            return
        display = self._notices.display()
        if self._task is None:
            self._task = display.add_task("", total=total, facts="")
        sentence = say(self._sentence, done=done, total=total)
        display.update(self._task, description=sentence, completed=done, total=total)


class EvalProgress:
    """Passages indexed, then questions asked."""

    def __init__(self, notices: Notices, *, passages: int) -> None:
        self._indexing = AddProgress(notices, sentence="cli.eval_passages", found=passages)
        self._asked = Counted(notices, sentence="cli.eval_asked")

    def __call__(self, event: EvaluationEvent) -> None:
        from ragstone.kb.evaluation import Asked

        if isinstance(event, Asked):
            self._asked(event.questions, event.total)
        else:
            self._indexing(event)


def clock(seconds: float) -> str:
    """Seconds as 0:42 or 1:03:20."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
