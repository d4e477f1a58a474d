"""Parsers in processes of their own: a file that hangs, crashes or eats memory costs only itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import BinaryIO, TypeVar, cast

import anyio
import anyio.lowlevel
from anyio import from_thread

from ragstone import trace
from ragstone.errors import ParserFailed, RagstoneError
from ragstone.parse import wire
from ragstone.parse.containers import may_hold_members
from ragstone.parse.members import MAX_MEMBER_BYTES, MAX_MEMBERS
from ragstone.types import Blob, Document, LoadFailure

# What a parser needs of the environment; keys, passwords and proxies stay out.
_KEPT = frozenset({
    "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TEMP", "TMP", "TZ", "SYSTEMROOT", "WINDIR",
    "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME",
})  # fmt: skip
_ADDED = {
    "PYTHONUTF8": "1",
    "MALLOC_ARENA_MAX": "2",  # each arena takes 64 MB of the address space that is limited
    "OMP_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "TOKIO_WORKER_THREADS": "1",
}
_START_SECONDS = 60.0
MAX_STEPS = 1_000
"""Times that a worker may ask for more time for one file: once a page of a scan."""

T = TypeVar("T")


class ParserPool:
    """A `Parser`: up to `workers` files at once, each in a process that can be killed.

    `timeout` counts seconds for one file, of a scan for one page; `memory` the bytes of
    address space a process may use (not limited on Windows and macOS; OCR gets more);
    `max_input` and `max_output` the bytes of a file and of its text. An encrypted file is
    tried with each of `passwords`, which reach the process with the file and are kept nowhere.
    Processes start when
    they are first needed, serve `recycle` files and end with this one, whatever ends it.
    Used within one event loop.
    """

    def __init__(
        self,
        *,
        workers: int = 2,
        timeout: float = 60.0,
        memory: int = 1024 * 1024 * 1024,
        max_input: int = 256 * 1024 * 1024,
        max_output: int = 64 * 1024 * 1024,
        recycle: int = 200,
        passwords: Sequence[str] = (),
    ) -> None:
        self._workers, self._recycle = workers, recycle
        self._passwords = tuple(passwords)
        self._limits = {
            "timeout": timeout, "memory": memory, "max_input": max_input, "max_output": max_output
        }  # fmt: skip
        self._slots = anyio.Semaphore(workers)
        # Of its own: whoever waits for members holds it while they are parsed.
        self._unpacking = anyio.Semaphore(1)
        self._threads: anyio.CapacityLimiter | None = None
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._closed = False

    async def __call__(self, blob: Blob) -> Document:
        """Parse `blob`.

        Raises:
            ContentError: what the parser says about the file; ParserFailed when it took
                too long, used too much memory, or crashed.
        """
        async with self._slots:
            if self._closed:
                raise RuntimeError("this ParserPool is closed")
            worker = self._idle_worker() or _Worker(self._limits, self._passwords)
            self._busy.add(worker)
            try:
                outcome = await self._serve(worker, blob, lambda: worker.ask(blob))
            finally:
                self._busy.discard(worker)
                await self._put_back(worker)
        if isinstance(outcome, RagstoneError):
            raise outcome
        return outcome

    async def unpack(self, blob: Blob) -> AsyncGenerator[Blob | LoadFailure, None]:
        """The members of an archive, mail, mailbox or PDF, of all levels, one at a time; of others nothing.

        What cannot be read is a LoadFailure in the stream. `timeout` counts for each
        member. Members may be parsed while the stream is open; one container is unpacked
        at a time.

        Raises:
            ContentError: the container is damaged, over a limit, or crashed the worker;
                members may be missing from the stream.
        """
        if not may_hold_members(blob):
            return
        async with self._unpacking:
            if self._closed:
                raise RuntimeError("this ParserPool is closed")
            worker = self._idle_worker() or _Worker(self._limits, self._passwords)
            self._busy.add(worker)
            whole = False
            try:
                outcome = await self._serve(worker, blob, lambda: worker.ask_members(blob))
                while isinstance(outcome, (Blob, LoadFailure)):
                    yield outcome
                    outcome = await self._guarded(
                        worker, self._limits["timeout"], lambda: worker.next_member(blob)
                    )
                whole = True
            finally:
                self._busy.discard(worker)
                await self._put_back(worker, whole=whole)
        if outcome is not None:
            raise outcome

    async def _put_back(self, worker: _Worker, *, whole: bool = True) -> None:
        if whole and worker.usable(self._recycle) and not self._closed and len(self._idle) < self._workers:
            self._idle.append(worker)
        else:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(worker.close)

    def _idle_worker(self) -> _Worker | None:
        """A worker that still runs; one that was killed while idle must not cost a file."""
        while self._idle:
            worker = self._idle.pop()
            if worker.running():
                return worker
            worker.close()  # does not wait: it has ended
        return None

    async def _serve(
        self, worker: _Worker, blob: Blob, ask: Callable[[], T | RagstoneError]
    ) -> T | RagstoneError:
        if not worker.started:
            failure = await self._guarded(worker, _START_SECONDS, lambda: worker.start(blob))
            if failure is not None:
                return failure
        return await self._guarded(worker, self._limits["timeout"], ask)

    async def _guarded(self, worker: _Worker, seconds: float, call: Callable[[], T]) -> T:
        """Run `call` in a thread; a task beside it kills the worker on time-out or cancellation."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(self._workers + 1)
        outcomes: list[T] = []
        worker.moved = time.monotonic()

        async def watch() -> None:
            try:
                # A scan takes its time: each page it is at counts as a step.
                while (left := worker.moved + seconds - time.monotonic()) > 0:  # noqa: ASYNC110
                    await anyio.sleep(left)
                worker.late = True
            finally:
                if not outcomes:
                    worker.kill()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            # Never abandoned: a killed worker ends the call, and no pipe is closed under it.
            outcomes.append(await anyio.to_thread.run_sync(call, limiter=self._threads))
            tasks.cancel_scope.cancel()
        # The thread's end hides a cancellation; without this it would look like a crash.
        await anyio.lowlevel.checkpoint_if_cancelled()
        return outcomes[0]

    async def aclose(self) -> None:
        """End all processes; files that are being read fail."""
        self._closed = True
        for worker in self._busy:
            worker.kill()
        with anyio.CancelScope(shield=True):
            while self._idle:
                await anyio.to_thread.run_sync(self._idle.pop().close)
            for _ in range(self._workers):  # calls that were under way close their workers
                await self._slots.acquire()
            for _ in range(self._workers):
                self._slots.release()


class _Worker:
    """One process and its pipes. All methods but `kill` block and run in a thread."""

    def __init__(self, limits: dict[str, float], passwords: tuple[str, ...]) -> None:
        self._limits = limits
        self._passwords = passwords
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: BinaryIO | None = None
        self._killed = self._broken = False
        self._files = self._members = 0
        self.moved = 0.0
        self.started = self.late = False

    def usable(self, recycle: int) -> bool:
        return self.started and not self._killed and not self._broken and self._files < recycle

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, blob: Blob) -> ParserFailed | None:
        """Start the process for its first file; what went wrong, if something did."""
        try:
            process = self._popen()
            wire.receive(cast("BinaryIO", process.stdout), max_body=0)
        except (wire.Broken, OSError) as error:
            self._broken = True
            return self._death(blob, error)
        self.started = True
        return None

    def ask(self, blob: Blob) -> Document | RagstoneError:
        """What became of `blob`; never raises for what the worker does."""

        def answer(header: wire.Header, body: bytes) -> Document:
            return wire.restore(blob, header, body)

        return self._exchange(blob, "parse", answer, max_body=int(self._limits["max_output"]))

    def ask_members(self, blob: Blob) -> Blob | LoadFailure | RagstoneError | None:
        """The first member of `blob`, None when it has none; `next_member` gives the others."""
        self._members = 0
        return self._exchange(blob, "unpack", partial(self._member, blob), max_body=MAX_MEMBER_BYTES)

    def next_member(self, blob: Blob) -> Blob | LoadFailure | RagstoneError | None:
        return self._exchange(blob, "", partial(self._member, blob), max_body=MAX_MEMBER_BYTES)

    def _member(self, blob: Blob, header: wire.Header, body: bytes) -> Blob | LoadFailure | None:
        if header.get("end"):
            return None
        self._members += 1
        if self._members > MAX_MEMBERS:  # the worker counts too, unless it was taken over
            raise wire.Broken("more members than there may be")
        return wire.restore_member(blob, header, body)

    def _exchange(
        self, blob: Blob, task: str, answer: Callable[[wire.Header, bytes], T], *, max_body: int
    ) -> T | RagstoneError:
        """Send `task`, unless it is under way, and read the answer to it."""
        process = cast("subprocess.Popen[bytes]", self._process)
        requests, answers = cast("BinaryIO", process.stdin), cast("BinaryIO", process.stdout)
        try:
            if task:
                self._files += 1
                about = {
                    "task": task,
                    "uri": blob.uri,
                    "name": blob.name,
                    "media_type": blob.media_type,
                    "passwords": self._passwords,
                }
                wire.send(requests, about, blob.data)
            header, body = self._receive(answers, max_body)
            if "crash" in header:
                self._broken = True
                return self._crash(blob, str(header["crash"])[:300])
            if "error" in header:
                return wire.restore_error(header, name=blob.name)
            return answer(header, body)
        except (wire.Broken, OSError) as error:
            self._broken = True
            return self._death(blob, error)

    def _receive(self, answers: BinaryIO, max_body: int) -> tuple[wire.Header, bytes]:
        """The next answer; what only says that work goes on gives it more time."""
        for _ in range(MAX_STEPS):
            header, body = wire.receive(answers, max_body=max_body)
            if "progress" not in header:
                return header, body
            self.moved = time.monotonic()
            from_thread.run_sync(_report, header)
        raise wire.Broken("it never ends")

    def _popen(self) -> subprocess.Popen[bytes]:
        self._errors = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 (closed in close)
        self._process = subprocess.Popen(
            # -P: the folder the program runs in is no place to import from.
            [sys.executable, "-P", "-m", "ragstone.parse.worker", json.dumps(self._limits)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            cwd=tempfile.gettempdir(),
            env=_environment(),
            start_new_session=True,  # Ctrl-C is for the program, which then ends its workers
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        if self._killed:  # asked to before there was a process
            self._process.kill()
        return self._process

    def kill(self) -> None:
        """End the process now; `ask`, if it waits, returns."""
        self._killed = True
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End the process, reap it, free its pipes."""
        process = self._process
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        if self._errors is not None:
            self._errors.close()

    def _death(self, blob: Blob, error: Exception) -> ParserFailed:
        """How the worker ended, from its exit status and the end of its stderr."""
        if self._process is None:
            return ParserFailed("parse.start", name=blob.name, reason=str(error))
        ended = self._process.poll() is not None
        self._process.kill()
        status, said = self._process.wait(), self._last_words()
        if self.late:
            return ParserFailed("parse.timeout", name=blob.name, seconds=self._limits["timeout"])
        if not self.started:
            return ParserFailed("parse.start", name=blob.name, reason=said.rpartition("\n")[2] or str(error))
        if not ended and not self._killed and not isinstance(error, (wire.Ended, OSError)):
            return self._crash(blob, str(error))
        try:
            reason = signal.Signals(-status).name
        except ValueError:
            reason = f"exit {status}"
        return self._crash(blob, reason, said)

    def _crash(self, blob: Blob, reason: str, said: str = "") -> ParserFailed:
        if any(sign in f"{reason} {said}" for sign in ("MemoryError", "memory allocation", "bad_alloc")):
            return ParserFailed("parse.memory", name=blob.name, limit=int(self._limits["memory"]))
        return ParserFailed("parse.crashed", name=blob.name, reason=reason)

    def _last_words(self) -> str:
        if self._errors is None:
            return ""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 4000))
        return self._errors.read().decode("utf-8", "replace").strip()


def _report(header: wire.Header) -> None:
    done, pages = header["progress"], header.get("of")
    if isinstance(done, int) and isinstance(pages, int):
        trace.page(done, pages)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name.upper() in _KEPT}
    # What can be imported here can be imported there, also in a notebook that changed sys.path.
    return {**kept, **_ADDED, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
