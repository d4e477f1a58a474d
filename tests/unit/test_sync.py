"""The blocking face works on any async object, also inside a running loop."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import AsyncIterator

import anyio
import pytest

from ragstone.sync import Blocking


class Counter:
    """An async object with a method, a stream and a place to look at afterwards."""

    def __init__(self) -> None:
        self.name = "counter"
        self.closed = False
        self.streams_ended = 0
        self.stream_ended = threading.Event()
        self.loop_thread = threading.get_ident()

    async def double(self, number: int) -> int:
        await anyio.lowlevel.checkpoint()
        return 2 * number

    async def fail(self) -> None:
        raise LookupError("as asked")

    async def count(self, limit: int | None = None, *, fail_at: int = -1) -> AsyncIterator[int]:
        try:
            number = 0
            # One cancel scope over the whole stream: it must be entered and left in one task.
            with anyio.CancelScope():
                while limit is None or number < limit:
                    await anyio.lowlevel.checkpoint()
                    if number == fail_at:
                        raise LookupError("as asked")
                    yield number
                    number += 1
        finally:
            self.streams_ended += 1
            self.stream_ended.set()

    async def wait_for_ctrl_c(self) -> None:
        try:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await anyio.sleep(30)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
                self.streams_ended += 1

    async def aclose(self) -> None:
        self.closed = True


async def make() -> Counter:
    return Counter()


def test_methods_block_and_values_are_passed_through() -> None:
    with Blocking(make) as face:
        assert face.double(21) == 42
        assert face.name == "counter"
        assert face.loop_thread != threading.get_ident()


def test_leaving_the_block_closes_the_object_once() -> None:
    with Blocking(make) as face:
        target = face._target
        assert not target.closed
    assert target.closed
    face.close()


def test_errors_come_through_as_they_are() -> None:
    with Blocking(make) as face, pytest.raises(LookupError, match="as asked"):
        face.fail()


def test_a_stream_becomes_an_iterator() -> None:
    with Blocking(make) as face:
        assert list(face.count(1_000)) == list(range(1_000))
        assert face.streams_ended == 1


def test_an_error_in_a_stream_comes_after_the_items_before_it() -> None:
    with Blocking(make) as face:
        stream = face.count(10, fail_at=3)
        assert [next(stream), next(stream), next(stream)] == [0, 1, 2]
        with pytest.raises(LookupError, match="as asked"):
            next(stream)


def test_a_stream_left_early_is_ended() -> None:
    with Blocking(make) as face:
        with face.count() as stream:
            assert next(stream) == 0
        assert face.stream_ended.wait(10)


@pytest.mark.skipif(sys.platform == "win32", reason="has no signal for one thread")
def test_ctrl_c_ends_the_work_that_is_waited_for() -> None:
    with Blocking(make) as face:
        with pytest.raises(KeyboardInterrupt):
            face.wait_for_ctrl_c()
        assert face.streams_ended == 1
        assert face.double(2) == 4


def test_the_names_of_the_object_are_listed() -> None:
    with Blocking(make) as face:
        assert {"double", "count", "close"} <= set(dir(face))


@pytest.mark.calls_blocking_parts
def test_it_works_inside_a_running_loop() -> None:
    async def notebook() -> int:
        with Blocking(make) as face:
            return face.double(4) + sum(face.count(3))

    assert anyio.run(notebook) == 11


def test_a_failure_while_opening_ends_the_loop_thread() -> None:
    async def broken() -> Counter:
        raise LookupError("no")

    before = threading.active_count()
    with pytest.raises(LookupError):
        Blocking(broken)
    assert threading.active_count() == before
