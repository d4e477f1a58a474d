"""The process that parses. Started by `sandbox.ParserPool` as `python -m ragstone.parse.worker`.

It reads frames from stdin and answers on what was stdout; printing of native libraries
goes to stderr. When stdin ends, because the pool closed it or its process died, the worker
ends at once, also in the middle of a file.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import threading
from queue import SimpleQueue
from typing import BinaryIO, cast

from ragstone.errors import ContentTooLarge, MissingExtra, RagstoneError
from ragstone.parse import ocr, unlock, wire
from ragstone.parse.offline import cut_off_network
from ragstone.trace import on_page as on_pages
from ragstone.types import Blob

Task = tuple[str, Blob, tuple[str, ...]]
"""What to do, with which file, and the passwords it may be opened with."""

MAX_STDERR = 64 * 1024 * 1024
"""Bytes any file the worker writes may have; its stderr is one."""


def main() -> None:
    limits = cast("dict[str, float]", json.loads(sys.argv[1]))
    requests, answers = _own_pipes()
    faulthandler.enable()
    cut_off_network()
    memory = int(limits["memory"])
    _limit_resources(memory=memory + ocr.MEMORY)
    _limit_memory(memory)
    queue: SimpleQueue[Task] = SimpleQueue()
    threading.Thread(target=_receive, args=(requests, queue, int(limits["max_input"])), daemon=True).start()
    wire.send(answers, {"ready": True})

    def on_page(done: int, pages: int) -> None:
        """A page for OCR: as much time again, and from here on the memory its models take."""
        _limit_processor(limits["timeout"])
        _limit_memory(memory + ocr.MEMORY)
        wire.send(answers, {"progress": done, "of": pages})

    while True:
        task, blob, passwords = queue.get()
        _limit_processor(limits["timeout"])
        with on_pages(on_page), unlock.using(passwords):
            if task == "unpack":
                header, body = _unpack(blob, answers, limits["timeout"])
            else:
                header, body = _answer(blob, int(limits["max_output"]))
        wire.send(answers, header, body)
        if "crash" in header:
            return  # what it left behind may harm the next file


def _own_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The two pipes on descriptors of their own, so that no library reads or writes them."""
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return cast("BinaryIO", requests), cast("BinaryIO", answers)


def _receive(requests: BinaryIO, queue: SimpleQueue[Task], max_input: int) -> None:
    """Hand on what comes in; end the process when nothing more can come."""
    try:
        while True:
            header, body = wire.receive(requests, max_body=max_input)
            blob = Blob(uri=header["uri"], name=header["name"], media_type=header["media_type"], data=body)
            queue.put((str(header["task"]), blob, tuple(map(str, header["passwords"]))))
    except wire.Ended:
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 (without this thread the process would wait for ever)
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)


def _answer(blob: Blob, max_output: int) -> tuple[wire.Header, bytes]:
    from ragstone.parse.router import parse

    try:
        document = parse(unlock.unlocked(blob))
        body = document.text.encode("utf-8", "replace")
        if len(body) > max_output:
            raise ContentTooLarge("parse.long", name=blob.name, limit=max_output)
        return wire.describe(document), body
    except RagstoneError as error:
        return wire.describe_error(error), b""
    except BaseException as error:  # noqa: BLE001 (the edge; a panic of Rust code is no Exception)
        return _crash(error), b""


def _unpack(blob: Blob, answers: BinaryIO, timeout: float) -> tuple[wire.Header, bytes]:
    """Send each member as a frame of its own; what is returned ends them."""
    from ragstone.parse.containers import members

    try:
        for member in members(unlock.unlocked(blob)):
            wire.send(answers, wire.describe_member(member), member.data if isinstance(member, Blob) else b"")
            _limit_processor(timeout)
        return {"end": True}, b""
    except RagstoneError as error:
        return wire.describe_error(error), b""
    except ImportError as error:
        extra = MissingExtra("core.missing_extra", feature=f"Unpacking {blob.name}", extra="parse")
        return wire.describe_error(extra.with_traceback(error.__traceback__)), b""
    except BaseException as error:  # noqa: BLE001 (as above)
        return _crash(error), b""


def _crash(error: BaseException) -> wire.Header:
    return {"crash": " ".join(f"{type(error).__name__}: {error}".split())[:300]}


def _limit_resources(*, memory: int) -> None:
    if sys.platform == "win32":
        return
    import resource

    def limit(kind: int, value: int) -> None:
        _, hard = resource.getrlimit(kind)
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (allowed, allowed))

    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, MAX_STDERR)
    if sys.platform != "darwin":  # macOS refuses to limit address space
        limit(resource.RLIMIT_AS, memory)


def _limit_memory(memory: int) -> None:
    """The address space this process may take now, up to the limit it started with."""
    if sys.platform in ("win32", "darwin"):
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    allowed = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (allowed, hard))


def _limit_processor(timeout: float) -> None:
    """Twice the time a file may take: what ends a worker whose pool was killed while it hung."""
    if sys.platform == "win32":
        return
    import resource

    usage = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    allowed = int(usage.ru_utime + usage.ru_stime + 2 * timeout) + 5
    resource.setrlimit(
        resource.RLIMIT_CPU, (allowed if hard == resource.RLIM_INFINITY else min(allowed, hard), hard)
    )


if __name__ == "__main__":
    main()
