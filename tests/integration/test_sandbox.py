"""The parser pool against parsers that misbehave.

Code that crashes, hangs or lies stands in for a library that a bad file drives mad: the
tests put a module of the library's name first on the path, and the worker imports it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest

from making import blob, docx, lines, paragraph, pdf, zipped
from ragstone.errors import ContentError, ContentTooLarge, CorruptContent, MissingExtra, NoText, ParserFailed
from ragstone.parse.router import parse
from ragstone.parse.sandbox import ParserPool
from ragstone.trace import on_page
from ragstone.types import Blob, LoadFailure

pytestmark = pytest.mark.anyio

PAGE = blob("page.html", "<html><body><p>hello</p></body></html>")
TEXT = blob("note.txt", "plain text")


@pytest.fixture
async def pool() -> AsyncIterator[ParserPool]:
    pool = ParserPool(workers=1, timeout=30)
    yield pool
    await pool.aclose()


@pytest.fixture
def mad_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make the library that reads HTML run this code when a worker imports it."""

    def write(code: str) -> None:
        package = tmp_path / "selectolax"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "lexbor.py").write_text("import os, sys, time\n" + textwrap.dedent(code))
        monkeypatch.syspath_prepend(str(tmp_path))

    return write


def workers() -> list[int]:
    """Process ids of parser workers that are children of this process, zombies too."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
            status = stat.rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if int(status[1]) == os.getpid() and (
            b"ragstone.parse.worker" in command or (status[0] == "Z" and "(python" in stat)
        ):
            found.append(int(entry.name))
    return found


async def until(done: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not done():  # noqa: ASYNC110 (what is waited for is another process)
            await anyio.sleep(0.01)


async def still_reads(pool: ParserPool) -> bool:
    return (await pool(TEXT)).text == "plain text"


# --- what it gives -----------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        blob("a.txt", "你好\r\nworld", metadata={"team": "x", "n": 3}),
        blob("a.md", "---\ntags: [a, b]\n---\n# T\n\ntext\n\n## U\n"),
        blob("a.pdf", pdf([lines("Page one"), lines("Page two")])),
        blob("a.docx", docx(paragraph("Head", style="1") + paragraph("body"))),
    ],
    ids=lambda source: source.name,
)
@pytest.mark.calls_blocking_parts
async def test_a_document_from_a_worker_equals_one_parsed_here(pool: ParserPool, source: Blob) -> None:
    assert await pool(source) == parse(source)


async def test_the_reason_a_file_is_refused_comes_back_in_both_languages(pool: ParserPool) -> None:
    with pytest.raises(NoText) as caught:
        await pool(blob("blank.txt", " \n "))
    assert caught.value.key == "parse.no_text"
    assert "blank.txt" in caught.value.text("en")
    assert "blank.txt" in caught.value.text("zh")


async def test_files_share_a_process_and_it_is_replaced_after_its_share() -> None:
    pool = ParserPool(workers=1, recycle=2)
    seen: list[list[int]] = []
    for _ in range(4):
        await pool(TEXT)
        seen.append(workers())
    await pool.aclose()
    assert len(seen[0]) == 1
    assert seen[1] == []
    assert len(seen[2]) == 1
    assert seen[2] != seen[0]
    assert workers() == []


async def test_pages_that_ocr_reads_are_told_by_the_worker(mad_library: Callable[[str], None]) -> None:
    """C13: progress of a scan goes from the parser process to whoever listens."""
    mad_library("""
        from ragstone.parse import ocr
        for done in range(3):
            ocr.progress(done, 3)
        raise ValueError("enough")
    """)
    told: list[tuple[int, int]] = []
    pool = ParserPool(workers=1)
    with on_page(lambda done, pages: told.append((done, pages))), pytest.raises(ParserFailed):
        await pool(PAGE)
    await pool.aclose()
    assert told == [(0, 3), (1, 3), (2, 3)]


async def test_passwords_are_in_no_argument_and_no_environment_of_a_worker(
    mad_library: Callable[[str], None],
) -> None:
    mad_library("""
        seen = open("/proc/self/cmdline").read() + open("/proc/self/environ").read()
        raise ValueError("seen" if "geheim" in seen else "unseen")
    """)
    pool = ParserPool(workers=1, passwords=["geheim"])
    with pytest.raises(ParserFailed, match="unseen"):
        await pool(PAGE)
    await pool.aclose()


async def test_files_beyond_the_number_of_workers_wait_their_turn() -> None:
    pool = ParserPool(workers=2)
    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(pool, TEXT)
    assert len(workers()) == 2
    await pool.aclose()


async def test_a_closed_pool_takes_no_more_files_and_leaves_no_process(pool: ParserPool) -> None:
    await pool(TEXT)
    await pool.aclose()
    assert workers() == []
    with pytest.raises(RuntimeError):
        await pool(TEXT)


# --- workers that fail -------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("os._exit(3)", "exit 3"),
        ("os.kill(os.getpid(), 9)", "SIGKILL"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("raise SystemExit(5)", "SystemExit"),
        ("raise ZeroDivisionError('by zero')", "by zero"),
        ("def f(): f()\nf()", "RecursionError"),
    ],
)
async def test_a_crash_costs_one_file(
    pool: ParserPool, mad_library: Callable[[str], None], code: str, reason: str
) -> None:
    mad_library(code)
    with pytest.raises(ParserFailed) as caught:
        await pool(PAGE)
    assert caught.value.key == "parse.crashed"
    assert reason in str(caught.value)
    assert "page.html" in str(caught.value)
    assert await still_reads(pool)
    assert len(workers()) == 1


@pytest.mark.parametrize("code", ["while True: pass", "time.sleep(600)"])
async def test_a_hang_ends_at_the_time_limit(mad_library: Callable[[str], None], code: str) -> None:
    mad_library(code)
    pool = ParserPool(workers=1, timeout=2)  # enough for the text after it on a busy machine
    with anyio.fail_after(20), pytest.raises(ParserFailed) as caught:
        await pool(PAGE)
    assert caught.value.key == "parse.timeout"
    assert workers() == []
    assert await still_reads(pool)
    await pool.aclose()


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="no limit of address space there")
@pytest.mark.parametrize("code", ["x = [b'a' * 10_000_000 for _ in range(1000)]", "bytearray(2**40)"])
async def test_memory_is_bounded(mad_library: Callable[[str], None], code: str) -> None:
    mad_library(code)
    pool = ParserPool(workers=1, memory=400 * 1024 * 1024)
    with pytest.raises(ParserFailed) as caught:
        await pool(PAGE)
    assert caught.value.key == "parse.memory"
    assert await still_reads(pool)
    await pool.aclose()


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="no limit of address space there")
async def test_a_file_that_does_not_fit_the_memory_is_refused_not_waited_for() -> None:
    pool = ParserPool(workers=1, memory=250 * 1024 * 1024)
    with pytest.raises(ParserFailed) as caught:
        await pool(blob("big.txt", b"a" * 200 * 1024 * 1024))
    assert caught.value.key == "parse.memory"
    await pool.aclose()


async def test_too_much_text_is_refused() -> None:
    pool = ParserPool(workers=1, max_output=1000)
    with pytest.raises(ContentTooLarge):
        await pool(blob("long.txt", "word " * 1000))
    await pool.aclose()


async def test_printing_of_a_library_does_not_disturb(
    pool: ParserPool, mad_library: Callable[[str], None]
) -> None:
    mad_library(
        """
        print("noise" * 1000, flush=True)
        os.write(1, b"\\x00\\x00\\x00\\x02{}" * 100)
        sys.stdin.read()
        raise ImportError("gone")
        """
    )
    with pytest.raises(MissingExtra):
        await pool(PAGE)
    assert await still_reads(pool)


@pytest.mark.parametrize(
    "frame",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02{}",
        b"\x00\x00\x00\x0a{'body':0}",
        b'\x00\x00\x00\x0c{"body":0.5}',
        b'\x00\x00\x00\x18{"body":99999999999999}  ',
        b'\x00\x00\x00\x0a{"body":0}',
        b'\x00\x00\x00\x35{"body":0,"error":"SystemExit","key":"x","values":{}} ',
        b"\x00\x00\x40\x00" + b"[" * 0x4000,
    ],
)
async def test_an_answer_that_is_none_is_a_failed_file(
    pool: ParserPool, mad_library: Callable[[str], None], frame: bytes
) -> None:
    # A taken-over worker writes on its answer pipe, the one pipe opened for writing only.
    mad_library(
        f"""
        import fcntl, stat
        for fd in range(3, 20):
            try:
                write_only = fcntl.fcntl(fd, fcntl.F_GETFL) & 3 == os.O_WRONLY
                pipe = stat.S_ISFIFO(os.fstat(fd).st_mode) and write_only
            except OSError:
                continue
            if pipe:
                os.write(fd, {frame!r})
        time.sleep(600)
        """
    )
    with anyio.fail_after(20), pytest.raises(ParserFailed):
        await pool(PAGE)
    assert await still_reads(pool)


async def test_a_worker_killed_between_files_costs_none(pool: ParserPool) -> None:
    await pool(TEXT)
    (worker,) = workers()
    os.kill(worker, signal.SIGKILL)
    ended = os.WEXITED | os.WNOWAIT | os.WNOHANG
    await until(lambda: os.waitid(os.P_PID, worker, ended) is not None)
    assert await still_reads(pool)
    assert len(workers()) == 1


async def test_cancelling_kills_the_worker_and_the_next_file_is_read(pool: ParserPool) -> None:
    await pool(TEXT)
    (worker,) = workers()
    os.kill(worker, signal.SIGSTOP)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool, TEXT)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert workers() == []
    assert await still_reads(pool)


async def test_closing_ends_files_that_are_being_read(
    pool: ParserPool, mad_library: Callable[[str], None]
) -> None:
    mad_library("time.sleep(600)")
    failed: list[ContentError] = []

    async def read() -> None:
        try:
            await pool(PAGE)
        except ContentError as error:
            failed.append(error)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            await pool.aclose()
    assert isinstance(failed[0], ParserFailed)
    assert workers() == []


# --- what it lets through ----------------------------------------------------------


async def test_a_worker_sees_no_secrets_and_no_files_of_the_program(
    pool: ParserPool, mad_library: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    monkeypatch.setenv("RAGSTONE_CHAT_API_KEY", "hunter2")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:hunter2@proxy")
    mad_library(
        f"""
        targets = [os.readlink(f"/proc/self/fd/{{fd}}") for fd in os.listdir("/proc/self/fd") if int(fd) > 2
                   and os.path.exists(f"/proc/self/fd/{{fd}}")]
        open({str(seen)!r}, "w").write(repr(dict(os.environ)) + "\\n" + repr(targets))
        raise ImportError
        """
    )
    with (tmp_path / "opened").open("w") as opened:
        os.set_inheritable(opened.fileno(), True)
        with pytest.raises(MissingExtra):
            await pool(PAGE)
    text = seen.read_text()
    assert "hunter2" not in text
    assert str(tmp_path / "opened") not in text.splitlines()[1]


async def test_a_worker_ends_when_its_program_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import anyio, os
            from ragstone.parse.sandbox import ParserPool
            from ragstone.types import Blob

            async def main():
                pool = ParserPool(workers=1)
                await pool(Blob(uri="file:///a", name="a.txt", data=b"text"))
                print(pool._idle[0]._process.pid, flush=True)
                await anyio.sleep(600)

            anyio.run(main)
            """
        )
    )
    process = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE)  # noqa: ASYNC220
    assert process.stdout is not None
    try:
        worker = int(await anyio.to_thread.run_sync(process.stdout.readline))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    proc = Path(f"/proc/{worker}")
    await until(
        lambda: not proc.exists() or proc.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "Z"
    )


async def test_it_works_in_a_program_without_a_main_guard(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import anyio
            from ragstone.parse.sandbox import ParserPool
            from ragstone.types import Blob

            async def main():
                pool = ParserPool(workers=1)
                print((await pool(Blob(uri="file:///a", name="a.txt", data=b"read once"))).text)
                await pool.aclose()

            anyio.run(main)
            """
        )
    )
    done = await anyio.run_process([sys.executable, "-W", "error", str(program)])
    assert done.stdout == b"read once\n"
    assert done.stderr == b""


# --- members of containers -----------------------------------------------------------


async def members(pool: ParserPool, source: Blob) -> list[Blob | LoadFailure]:
    return [member async for member in pool.unpack(source)]


async def test_members_from_a_worker_equal_those_unpacked_here(pool: ParserPool) -> None:
    source = blob("a.zip", zipped({"in/a.txt": "words", "../b.txt": "out", "c.zip": zipped({"d.md": "# d"})}))
    found = await members(pool, source)
    assert [(member.uri, getattr(member, "data", b"")) for member in found] == [
        (f"{source.uri}!/in/a.txt", b"words"),
        (f"{source.uri}!/../b.txt", b""),
        (f"{source.uri}!/c.zip", zipped({"d.md": "# d"})),
        (f"{source.uri}!/c.zip!/d.md", b"# d"),
    ]
    assert isinstance(found[1], LoadFailure)
    assert found[1].error.key == "parse.member_path"
    assert isinstance(found[3], Blob)
    assert found[3].metadata == {"container": "a.zip!/c.zip"}
    assert len(workers()) == 1


async def test_a_file_that_is_no_container_needs_no_worker(pool: ParserPool) -> None:
    assert await members(pool, TEXT) == []
    assert workers() == []


async def test_members_are_parsed_while_the_rest_is_unpacked() -> None:
    pool = ParserPool(workers=1)
    source = blob("a.zip", zipped({f"{n}.txt": f"text {n}" for n in range(50)}))
    with anyio.fail_after(30):
        texts = [
            (await pool(member)).text async for member in pool.unpack(source) if isinstance(member, Blob)
        ]
    assert texts == [f"text {n}" for n in range(50)]
    await pool.aclose()
    assert workers() == []


async def test_leaving_a_container_early_ends_its_worker(pool: ParserPool) -> None:
    stream = pool.unpack(blob("a.zip", zipped({f"{n}.txt": "x" * 100_000 for n in range(50)})))
    await anext(stream)
    await stream.aclose()
    assert workers() == []
    assert await still_reads(pool)


async def test_a_crash_while_unpacking_costs_that_container(
    pool: ParserPool, mad_library: Callable[[str], None], tmp_path: Path
) -> None:
    mad_library("pass")
    (tmp_path / "pypdfium2.py").write_text("import os; os.kill(os.getpid(), 9)")
    with pytest.raises(ParserFailed) as caught:
        await members(pool, blob("a.pdf", pdf([lines("x")])))
    assert caught.value.key == "parse.crashed"
    assert await still_reads(pool)


async def test_the_reason_a_container_cannot_be_opened_comes_back(pool: ParserPool) -> None:
    with pytest.raises(CorruptContent):
        await members(pool, blob("a.zip", zipped({"a.txt": "words" * 99})[:-30]))
    assert len(workers()) == 1


# --- network -------------------------------------------------------------------------

_DIAL = """
import ctypes, socket
address = ("127.0.0.1", {port})
"""


@pytest.mark.parametrize(
    "call",
    [
        "socket.create_connection(address, timeout=5)",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', address)",
        "socket.getaddrinfo('example.org', 443)",
    ],
)
async def test_a_parser_that_uses_the_network_is_refused(
    pool: ParserPool, mad_library: Callable[[str], None], call: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        mad_library(_DIAL.format(port=server.getsockname()[1]) + call)
        with pytest.raises(ParserFailed, match="may not use the network"):
            await pool(PAGE)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def _has_namespaces() -> bool:
    code = "from ragstone.parse.offline import cut_off_network; print(cut_off_network())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).stdout.strip() == b"True"


@pytest.mark.skipif(not _has_namespaces(), reason="the kernel gives no network namespace here")
async def test_native_code_reaches_no_network_either(
    pool: ParserPool, mad_library: Callable[[str], None]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        mad_library(
            _DIAL.format(port=port)
            + """
libc = ctypes.CDLL(None, use_errno=True)
handle = libc.socket(2, 1, 0)
where = (2).to_bytes(2, sys.byteorder) + address[1].to_bytes(2, "big") + bytes([127, 0, 0, 1]) + bytes(8)
connected = libc.connect(handle, where, 16)
raise ValueError(f"connected {connected} errno {ctypes.get_errno()}")
"""
        )
        with pytest.raises(ParserFailed, match="connected -1"):
            await pool(PAGE)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
