"""Ingestion of folders of 1,000 and 10,000 mixed files: memory of all processes, and where time goes.

    python benchmarks/ingest.py [--local]

The folders are made here: text, Markdown, HTML, CSV, DOCX and PDF, half Chinese, half
English. Each is added by `ragstone add` into a home of its own, with the fake embedder and
two parsers. Memory is the sum over the command, its parsers and PostgreSQL of what
each holds (PSS: what they share counts once), looked at four times a second. `--local`
adds 300 files with the local model. Linux only. Writes benchmarks/results/ingest.md.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "ingest.md"
SIZES = (1_000, 10_000)
LOCAL = 300
COMMAND = [sys.executable, "-c", "from ragstone.cli import run; run()"]
STAGES = ("load", "parse", "split", "known", "embed", "store")
PID_FILE = "home/**/postmaster.pid"
LETTERS = "etaoinshrdlucmfwypvbgk"
# Of twenty files, so many are of each kind.
KINDS = ("txt",) * 7 + ("md",) * 4 + ("html",) * 3 + ("csv",) * 3 + ("docx",) * 2 + ("pdf",)


class Writer:
    """Distinct prose and the files that hold it."""

    def __init__(self, seed: int = 11) -> None:
        self._chance = random.Random(seed)
        self._words = [
            "".join(self._chance.choices(LETTERS, k=self._chance.randint(2, 10))) for _ in range(9_000)
        ]
        self._hanzi = [chr(code) for code in range(0x4E00, 0x5A00)]

    def english(self) -> str:
        words = self._chance.choices(self._words, k=self._chance.randint(8, 24))
        return " ".join(words).capitalize() + "."

    def chinese(self) -> str:
        return "".join(self._chance.choices(self._hanzi, k=self._chance.randint(10, 40))) + "。"

    def paragraphs(self, *, english: bool) -> list[str]:
        sentence = self.english if english else self.chinese
        return [" ".join(sentence() for _ in range(5)) for _ in range(self._chance.randint(2, 8))]

    def file(self, number: int) -> tuple[str, bytes]:
        kind = KINDS[number % len(KINDS)]
        english = kind == "pdf" or number // len(KINDS) % 2 == 0
        paragraphs = self.paragraphs(english=english)
        return kind, getattr(self, f"_{kind}")(f"Note {number}" if english else f"笔记 {number}", paragraphs)

    def _txt(self, title: str, paragraphs: list[str]) -> bytes:
        return "\n\n".join((title, *paragraphs)).encode()

    def _md(self, title: str, paragraphs: list[str]) -> bytes:
        return "\n\n".join((f"# {title}", f"## {paragraphs[0][:9]}", *paragraphs)).encode()

    def _html(self, title: str, paragraphs: list[str]) -> bytes:
        body = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
        head = f"<html><head><title>{title}</title></head><body><nav>a b</nav>"
        return f"{head}<h1>{title}</h1>{body}</body></html>".encode()

    def _csv(self, title: str, paragraphs: list[str]) -> bytes:
        rows = [f"{number},{text[:40]},{number * 7}" for number, text in enumerate(paragraphs)]
        return "\n".join(("id,text,amount", *rows)).encode()

    def _docx(self, title: str, paragraphs: list[str]) -> bytes:
        w = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
        body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in (title, *paragraphs))
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as package:
            package.writestr("[Content_Types].xml", "<Types/>")
            package.writestr("word/document.xml", f"<w:document {w}><w:body>{body}</w:body></w:document>")
        return data.getvalue()

    def _pdf(self, title: str, paragraphs: list[str]) -> bytes:
        lines = [title] + [
            text[start : start + 80] for text in paragraphs for start in range(0, len(text), 80)
        ]
        shown = " ".join(f"({line}) Tj T*" for line in lines[:50])
        stream = zlib.compress(f"BT /F1 11 Tf 14 TL 50 780 Td {shown} ET".encode())
        objects = [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R"
            b" /Resources << /Font << /F1 5 0 R >> >> >>",
            b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(stream), stream),
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        ]
        data, places = b"%PDF-1.4\n", []
        for number, content in enumerate(objects, 1):
            places.append(len(data))
            data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
        table = b"".join(b"%010d 00000 n \n" % place for place in places)
        start = len(data)
        data += b"xref\n0 6\n0000000000 65535 f \n" + table
        return data + b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % start


@dataclass(frozen=True)
class Run:
    """One `ragstone add`: its summary, CPU seconds without PostgreSQL and of it, and the most memory
    (MB) of all and of each kind of process."""

    files: int
    embedder: str
    summary: dict[str, Any]
    cpu: float
    server_cpu: float
    peak: float
    parts: dict[str, float]


class Watch:
    """The memory (PSS) of a command and everything below it, and that and the CPU of its PostgreSQL."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.peak = 0.0
        self.parts: dict[str, float] = {}
        self.server_cpu = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.25):
            found: dict[str, float] = {}
            cpu = 0.0
            for process in _processes(self._place):
                found[process.kind] = found.get(process.kind, 0.0) + _pss(process.pid)
                if process.kind == "postgres":
                    cpu += process.cpu
            self.peak = max(self.peak, sum(found.values()))
            self.server_cpu = max(self.server_cpu, cpu)
            for kind, size in found.items():
                self.parts[kind] = max(self.parts.get(kind, 0.0), size)


@dataclass
class Process:
    """`cpu`: seconds of its own, and of those of its children that have ended."""

    pid: int
    parent: int
    words: str
    cpu: float
    kind: str = ""


def _processes(place: Path) -> list[Process]:
    """Those of the command of `place` (its command line names it) and of the server kept there."""
    running: dict[int, Process] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        cpu = sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")
        running[int(folder.name)] = Process(int(folder.name), int(stat[1]), words, cpu)
    roots = {pid: "command" for pid, process in running.items() if str(place) in process.words}
    roots |= dict.fromkeys(_postmasters(place), "postgres")
    for process in running.values():
        above = process.pid
        while above in running and above not in roots:
            above = running[above].parent
        if above in roots:
            process.kind = "parsers" if "ragstone.parse.worker" in process.words else roots[above]
    return [process for process in running.values() if process.kind]


def _postmasters(place: Path) -> list[int]:
    try:
        # While the data folder is made, a single process writes its number with a minus.
        return [abs(int(pid)) for file in place.glob(PID_FILE) for pid in file.read_text().split()[:1]]
    except FileNotFoundError:
        return []


def _pss(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def made(folder: Path, count: int) -> None:
    writer = Writer()
    for number in range(count):
        below = folder / f"{number // 500:03}"
        below.mkdir(exist_ok=True)
        kind, data = writer.file(number)
        (below / f"{number:05}.{kind}").write_bytes(data)


def measured(count: int, *, embedder: str) -> Run:
    with tempfile.TemporaryDirectory(prefix="ragstone-ingest-") as place:
        Path(place).chmod(0o755)
        home, folder = Path(place) / "home", Path(place) / "files"
        folder.mkdir()
        made(folder, count)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAGSTONE_")}
        environment["RAGSTONE_HOME"] = str(home)
        if embedder == "fake":
            environment["RAGSTONE_TEST_EMBEDDER"] = "fake"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with Watch(Path(place)) as watch:
            ended = subprocess.run(
                [*COMMAND, "add", str(folder), "--json"],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        summary = json.loads(ended.stdout.splitlines()[-1])
        if summary.get("failed") or summary.get("ready") != count:
            raise SystemExit(f"{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}")
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Run(count, embedder, summary, cpu, watch.server_cpu, watch.peak, watch.parts)


def report(runs: list[Run]) -> str:
    lines = [
        "# Ingestion",
        "",
        "`python benchmarks/ingest.py --local`, see there for what is measured.",
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"load average {os.getloadavg()[0]:.0f} at the end, "
        f"{time.strftime('%Y-%m-%d')}.",
        "",
        "| files | embedder | chunks | s | files/s | CPU s | of PostgreSQL | peak MB, all | command "
        "| parsers | PostgreSQL |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for run in runs:
        seconds = run.summary["seconds"]
        parts = " | ".join(f"{run.parts.get(kind, 0):.0f}" for kind in ("command", "parsers", "postgres"))
        lines.append(
            f"| {run.files:,} | {run.embedder} | {run.summary['chunks']:,} | {seconds:.0f} "
            f"| {run.files / seconds:.1f} | {run.cpu:.0f} | {run.server_cpu:.0f} | {run.peak:.0f} | {parts} |"
        )
    if len(runs) > 1:
        lines += ["", f"Memory with 10 times the files: {runs[1].peak / runs[0].peak:.2f} times."]
    lines += [
        "",
        "Seconds inside each stage as a share of their sum (stages overlap; parsing runs twice at once):",
        "",
        "| files | embedder | load | parse | split | known | embed | store |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for run in runs:
        spent = run.summary["stage_seconds"]
        shares = [
            spent.get(stage, 0.0) / sum(spent.values())
            for stage in ("load", "parse", "split", "known", "embed", "store")
        ]
        lines.append(
            f"| {run.files:,} | {run.embedder} | " + " | ".join(f"{share:.0%}" for share in shares) + " |"
        )
    lines += [
        "",
        "CPU s: the command and its parsers; PostgreSQL's own stand beside. `known` asks which texts are",
        "embedded already.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--local", action="store_true")
    arguments.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    options = arguments.parse_args()
    runs = [measured(count, embedder="fake") for count in options.sizes]
    if options.local:
        runs.append(measured(LOCAL, embedder="local"))
    text = report(runs)
    print(text)
    if tuple(options.sizes) == SIZES:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
