"""Parsers beside each other: what they find, what they call ready though it is not, speed, memory.

    python benchmarks/parse.py [FOLDER] [--others FOLDER]

FOLDER holds documents and a manifest.jsonl that says of each what a reader must find.
Ragstone reads through the pool of parser processes that `ragstone add` uses, the others
by their own simplest call, without OCR. PDFs are read apart from the rest, so that pages a CPU second
compares the same work. markitdown and pypdf are installed by pip into a virtual environment,
kept in a cache folder. Writes benchmarks/results/parse.md.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import io
import json
import os
import platform
import resource
import selectors
import subprocess
import sys
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from split import others

RESULTS = Path(__file__).parent / "results" / "parse.md"
DOCUMENTS = Path(__file__).parents[2] / "shared" / "data" / "docs"
CACHE = Path(tempfile.gettempdir()) / "ragstone-parsers"
PACKAGES = ("markitdown[docx,pptx,xlsx,xls,pdf,outlook]", "pypdf[crypto]")
READ, REFUSED = ("extract", "extract_or_reject"), ("reject", "empty")
SECONDS = 20
"""For one file; a parser that takes longer is killed and goes on with the next."""
MEMORY = 4 * 1024**3
"""Bytes of address space for a parser that sets itself no limit."""

Read = Callable[[Path], str]


# --- the parsers, each called in a process of its own -------------------------------


def ragstone() -> Read:
    from ragstone.clean import clean
    from ragstone.parse.sandbox import ParserPool
    from ragstone.types import Blob

    pool, loop = ParserPool(workers=1), asyncio.new_event_loop()
    # Only what has ended and been waited for counts as used.
    atexit.register(lambda: loop.run_until_complete(pool.aclose()))

    def read(path: Path) -> str:
        blob = Blob(uri=path.as_uri(), name=path.name, data=path.read_bytes())
        return clean(loop.run_until_complete(pool(blob))).text

    return read


def markitdown() -> Read:
    from markitdown import MarkItDown

    reader = MarkItDown(enable_plugins=False)
    return lambda path: reader.convert(str(path)).text_content


def xberg() -> Read:
    import xberg as library

    config = library.ExtractionConfig(use_cache=False, disable_ocr=True, output_format="markdown")

    async def extract(path: Path) -> str:
        source = library.ExtractInput(kind="uri", uri=str(path))
        result = await library.extract(source, config)
        if not result.results:
            raise ValueError(result.errors)
        return result.results[0].content

    return lambda path: asyncio.run(extract(path))


def liteparse() -> Read:
    from liteparse.parser import LiteParse

    reader = LiteParse(ocr_enabled=False, output_format="markdown", quiet=True, num_workers=1)
    return lambda path: reader.parse(path.read_bytes()).text


def pypdf() -> Read:
    from pypdf import PdfReader

    return lambda path: "\n\n".join(
        page.extract_text() for page in PdfReader(io.BytesIO(path.read_bytes())).pages
    )


PARSERS: dict[str, Callable[[], Read]] = {
    "ragstone": ragstone,
    "markitdown": markitdown,
    "xberg": xberg,
    "liteparse": liteparse,
    "pypdf": pypdf,
}
OURS = ("ragstone", "xberg", "liteparse")
"""Parsers that an installation of Ragstone has; the others are installed apart."""
FOR_PDF = ("liteparse", "pypdf")


def serve(name: str) -> None:
    """In the child process: a path a line comes in, its text (null when refused) goes out as JSON."""
    if name != "ragstone":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    read = PARSERS[name]()
    for line in sys.stdin:
        try:
            text = read(Path(json.loads(line)))
        except Exception:  # noqa: BLE001 whatever a parser raises, it has refused the file
            text = None
        answers.write(json.dumps(text) + "\n")
        answers.flush()


# --- running them -------------------------------------------------------------------


@dataclass
class Run:
    """What one parser made of some files: texts by path, and what that took."""

    texts: dict[str, str | None] = field(default_factory=dict[str, str | None])
    seconds: float = 0.0
    peak: int = 0
    killed: int = 0


class Child:
    """A process that parses; its CPU seconds and memory are known when it has ended."""

    def __init__(self, python: str, name: str) -> None:
        limits = {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "TOKIO_WORKER_THREADS": "1"}
        self._process = subprocess.Popen(
            [python, "-W", "ignore", __file__, "--serve", name],
            env=os.environ | limits,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout
        os.set_blocking(self._answers.fileno(), False)

    def read(self, path: Path) -> str | None:
        """The text of a file, None when it is refused. TimeoutError, EOFError: the process is of no use."""
        self._questions.write(json.dumps(str(path)).encode() + b"\n")
        self._questions.flush()
        answer = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            while not answer.endswith(b"\n"):
                if not selector.select(SECONDS):
                    raise TimeoutError
                piece = self._answers.read()
                if not piece:
                    raise EOFError
                answer += piece
        return json.loads(answer)

    def end(self, run: Run, *, kill: bool = False) -> None:
        if kill:
            self._process.kill()
        self._questions.close()
        _, status, used = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._answers.close()
        run.seconds += used.ru_utime + used.ru_stime
        run.peak = max(run.peak, used.ru_maxrss * 1024)


def run_all(python: str, name: str, folder: Path, paths: Sequence[str]) -> Run:
    run, child = Run(), None
    for path in paths:
        child = child or Child(python, name)
        try:
            run.texts[path] = child.read(folder / path)
        except (TimeoutError, EOFError, BrokenPipeError):
            run.killed += 1
            run.texts[path] = None
            child.end(run, kill=True)
            child = None
    if child:
        child.end(run)
    return run


# --- judging and the tables -----------------------------------------------------------


def squashed(text: str) -> str:
    kept = (c for c in unicodedata.normalize("NFKC", text) if not c.isspace() and c != "\u00ad")
    return "".join(kept).casefold()


@dataclass
class Score:
    """One parser over the whole manifest."""

    found: Counter[str] = field(default_factory=Counter[str])
    lacking: list[str] = field(default_factory=list[str])
    garbage: list[str] = field(default_factory=list[str])

    def count(self, row: dict[str, Any], text: str | None) -> None:
        ready = bool(text and text.strip())
        if row["expect"] in REFUSED:
            self.garbage += [row["path"]] * ready
            return
        held = squashed(text or "")
        found = sum(squashed(phrase) in held for phrase in row["must_contain"])
        self.found[row["kind"]] += found
        if ready and found < len(row["must_contain"]) and not row["reader_dependent"]:
            self.lacking.append(row["path"])


def score(rows: Sequence[dict[str, Any]], runs: Sequence[Run]) -> Score:
    texts = {path: text for run in runs for path, text in run.texts.items()}
    total = Score()
    for row in rows:
        total.count(row, texts.get(row["path"]))
    return total


def table(cells: Iterator[Sequence[str]]) -> list[str]:
    first = next(cells)
    return ["| " + " | ".join(row) + " |" for row in (first, ["---"] * len(first), *cells)]


def by_kind(rows: Sequence[dict[str, Any]], scores: dict[str, Score]) -> Iterator[Sequence[str]]:
    yield ("kind", "files", "phrases", *scores)
    wanted = [row for row in rows if row["expect"] in READ]
    for kind in sorted({row["kind"] for row in wanted}):
        some = [row for row in wanted if row["kind"] == kind]
        asked = sum(len(row["must_contain"]) for row in some)
        yield (kind, str(len(some)), str(asked), *(str(each.found[kind]) for each in scores.values()))
    asked = sum(len(row["must_contain"]) for row in wanted)
    totals = (f"**{each.found.total()}**" for each in scores.values())
    yield ("**all**", str(len(wanted)), str(asked), *totals)


def overall(
    scores: dict[str, Score], runs: dict[str, tuple[Run, Run]], pages: int
) -> Iterator[Sequence[str]]:
    yield (
        "parser", "phrases found", "ready, lacks a phrase", "ready, should be refused", "PDF pages/CPU s",
        "other files/CPU s", "peak MB", "killed",
    )  # fmt: skip
    for name, each in scores.items():
        pdf, rest = runs[name]
        yield (
            name,
            str(each.found.total()),
            str(len(each.lacking)),
            str(len(each.garbage)),
            f"{pages / pdf.seconds:.1f}",
            f"{len(rest.texts) / rest.seconds:.1f}" if rest.texts else "",
            f"{max(pdf.peak, rest.peak) / 1024**2:.0f}",
            str(pdf.killed + rest.killed),
        )


def versions(python: str) -> str:
    code = (
        "from importlib.metadata import distributions as d, version as v;"
        "n = {x.metadata['Name'] for x in d()};"
        "print(*(f'{x} {v(x)}' for x in ('markitdown', 'pypdf', 'xberg', 'liteparse') if x in n), sep=', ')"
    )
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def report(rows: Sequence[dict[str, Any]], runs: dict[str, tuple[Run, Run]], python: str) -> list[str]:
    scores = {name: score(rows, pair) for name, pair in runs.items()}
    pages = sum(row["pages"] or 1 for row in rows if is_pdf(row))
    own = scores["ragstone"]
    return [
        "# Parse",
        "",
        "    python benchmarks/parse.py",
        "",
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()};"
        f" {versions(sys.executable)}, {versions(python)}. One thread each; CPU includes starting."
        f" {len(rows)} files, {pages} PDF pages. Compare ratios, not times.",
        "",
        *table(overall(scores, runs, pages)),
        "",
        "`ready, lacks a phrase`: files read without an error in which a phrase is missing; phrases that"
        " depend on the reader count above and not here. `ready, should be refused`: text made of files"
        " that are empty, damaged, encrypted or not what their name says. Peak is of the largest process.",
        "Ragstone reads each page of a PDF twice, to compare.",
        "",
        "## Phrases by kind",
        "",
        *table(by_kind(rows, scores)),
        "",
        "## Files Ragstone calls ready that lack a phrase",
        "",
        *([f"- {path}" for path in own.lacking + own.garbage] or ["None."]),
    ]


def is_pdf(row: dict[str, Any]) -> bool:
    return row["path"].casefold().endswith(".pdf")


def measured(rows: Sequence[dict[str, Any]], folder: Path, python: str) -> dict[str, tuple[Run, Run]]:
    pdf = [row["path"] for row in rows if is_pdf(row)]
    rest = [row["path"] for row in rows if not is_pdf(row)]
    runs: dict[str, tuple[Run, Run]] = {}
    for name in PARSERS:
        interpreter = sys.executable if name in OURS else python
        runs[name] = (
            run_all(interpreter, name, folder, pdf),
            run_all(interpreter, name, folder, [] if name in FOR_PDF else rest),
        )
        seconds = runs[name][0].seconds + runs[name][1].seconds
        print(f"{name}: {seconds:.0f} CPU s", file=sys.stderr)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=DOCUMENTS)
    parser.add_argument("--others", type=Path, default=CACHE, help="where the other parsers are installed")
    parser.add_argument("--serve", choices=PARSERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    manifest = options.folder / "manifest.jsonl"
    if not manifest.is_file():
        print(f"no {manifest}: nothing to measure")
        return
    rows = [json.loads(line) for line in manifest.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["expect"] in READ + REFUSED]
    python = others(options.others, PACKAGES)
    lines = report(rows, measured(rows, options.folder, python), python)
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
