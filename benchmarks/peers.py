"""Ragstone beside haystack-ai, llama-index-core, langchain and haiku-rag-slim, embedding taken off.

    python benchmarks/peers.py [FOLDER] [--install] [--only NAME]... [--resume]

The same passages, the same vectors (of Ragstone's local model, served from a file) and the
same questions for all; each library as its documentation sets it up on one machine, in a
virtual environment of its own. `--install` makes those environments; without it, and
without them, nothing is measured. FOLDER (default: ../shared/data/retrieval) holds the
question sets. Writes benchmarks/results/peers.md unless only some were run.

CPU counts all threads and Ragstone's PostgreSQL; memory all processes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from contestants.environments import CACHE, NOT_INSTALLED, import_cpu, libraries
from ragstone.embed.local import LocalEmbedder
from ragstone.evaluate import means, measures
from ragstone.types import Vectors
from retrieval import SETS, dataset

RESULTS = Path(__file__).parent / "results" / "peers.md"
SCRIPTS = Path(__file__).parent / "contestants"
# No passage stands in two of these in two languages: each question has one right corpus.
CORPORA = ("xquad_en", "cmrc2018_trial", "drcd_dev", "mtrag_un", "paraphrase_zh")
ASKED = ("xquad_en", "xquad_zh_to_en", "cmrc2018_trial", "drcd_dev", "mtrag_un", "paraphrase_zh")
QUESTIONS = 30
SAMPLE = 50
"""Passages embedded anew in each run, to say what embedding takes."""
OWN = {
    "ragstone": "Ragstone, PostgreSQL",
    "ragstone_tokens": "Ragstone, PostgreSQL, with tokens",
    "ragstone_memory": "Ragstone, MemoryStore",
}
QUIET = {"LOGFIRE_IGNORE_NO_CONFIG": "1", "TOKENIZERS_PARALLELISM": "false"}
REASONS = {
    "ingest CPU ms a chunk": (
        "Ragstone analyses each text for full text in both languages, and its PostgreSQL store commits every "
        "passage as a document of its own, with its full-text and metadata indexes; the others keep objects "
        "in memory, or (haiku-rag-slim) write 100 documents at once."
    ),
    "chunks a CPU s, with embedding": "Embedding takes most of it everywhere; the rest is the column before.",
    "in documents of 16, CPU ms a chunk": "",
    "peak MB": "An embedded PostgreSQL is five to ten processes with caches of their own.",
    "disk MB": (
        "A new PostgreSQL cluster takes 40 MB (system tables, write-ahead log) before the first document; "
        "the others' files are dumps of what is in memory, or hold no full-text index with positions."
    ),
    "import CPU s": "",
    "vector CPU ms": "",
    "text CPU ms": (
        "bm25s, behind llama-index-core, keeps every score it may need in one matrix and builds it anew when "
        "a document changes; it knows no filters at query time, and its default finds no Chinese."
    ),
    "hybrid CPU ms": "",
    "hybrid p50 ms": "",
    "hybrid p95 ms": "",
    "mrr@10 xquad_zh_to_en": (
        "Most passages are in the question's language, and vectors put these first; llama-index-core's full "
        "text finds no Chinese, so that names and numbers lead to the English passages (docs/hybrid.md)."
    ),
}


@dataclass
class Contestant:
    name: str
    title: str
    python: Path


@dataclass
class Corpus:
    """The folder that every contestant reads, and what the runner needs of it."""

    folder: Path
    passages: int
    relevant: dict[str, dict[str, dict[str, int]]]
    embed_cpu_ms: float


async def corpus_at(folder: Path, sets: Path) -> Corpus:
    """Passages, questions and their vectors, written once for each model."""
    embedder = await LocalEmbedder.open(folder.parent / "models")
    folder = folder.with_name(f"{folder.name}-{embedder.identity.replace('/', '-')}")
    facts = folder / "facts.json"
    if not facts.exists():
        folder.mkdir(parents=True, exist_ok=True)
        facts.write_text(json.dumps(await _written(folder, sets, embedder)), encoding="utf-8")
    lines = (folder / "passages.jsonl").read_text(encoding="utf-8").splitlines()
    sample = [json.loads(line)["text"] for line in lines[:: len(lines) // SAMPLE]]
    started = time.process_time()
    await embedder.embed_documents(sample)
    embed_cpu_ms = (time.process_time() - started) / len(sample) * 1000
    await embedder.aclose()
    known = json.loads(facts.read_text(encoding="utf-8"))
    return Corpus(folder=folder, embed_cpu_ms=embed_cpu_ms, **known)


async def _written(folder: Path, sets: Path, embedder: LocalEmbedder) -> dict[str, Any]:
    offsets, limit = embedder.tokenizer.offsets, embedder.max_tokens
    passages: dict[str, str] = {}
    for name in CORPORA:
        for passage in dataset(sets / name).passages:
            text = f"{passage.title}\n{passage.text}".strip()
            places = offsets(text)
            text = text if len(places) <= limit else text[: places[limit - 1][1]].strip()
            passages[f"{name}/{passage.corpus_id}"] = text
    questions: dict[str, str] = {}
    relevant: dict[str, dict[str, dict[str, int]]] = {}
    for name in ASKED:
        data = dataset(sets / name)
        home = "xquad_en" if name == "xquad_zh_to_en" else name
        asked = [one for one in data.questions if data.relevant.get(one.query_id)][:QUESTIONS]
        for question in asked:
            questions[f"{name}/{question.query_id}"] = question.text
        relevant[name] = {
            f"{name}/{question.query_id}": {
                f"{home}/{found}": grade for found, grade in data.relevant[question.query_id].items()
            }
            for question in asked
        }
    _write(folder, "passages", passages, await embedder.embed_documents(list(passages.values())))
    _write(folder, "questions", questions, await embedder.embed_queries(list(questions.values())))
    return {"passages": len(passages), "relevant": relevant}


def _write(folder: Path, name: str, texts: dict[str, str], vectors: Vectors) -> None:
    rows = [json.dumps({"id": key, "text": text}, ensure_ascii=False) for key, text in texts.items()]
    (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    np.save(folder / f"{name}.npy", vectors.values)
    np.savez(folder / f"{name}-tokens.npz", *vectors.token_vectors)


def measured(contestant: Contestant, corpus: Corpus) -> dict[str, Any]:
    """What one contestant reports of itself, with its peak memory, files and import."""
    script = SCRIPTS / f"search_{contestant.name}.py"
    with tempfile.TemporaryDirectory(prefix="ragstone-peers-") as name:
        work = Path(name)
        work.chmod(0o755)
        command = [str(contestant.python), str(script), str(corpus.folder), str(work)]
        process = subprocess.Popen(command, env=os.environ | QUIET)
        peak = 0
        while process.poll() is None:
            peak = max(peak, sum(_memory(family(process.pid, work))))
            time.sleep(0.25)
        if process.returncode:
            raise SystemExit(f"{contestant.title} ended with {process.returncode}")
        result = json.loads((work / "measured.json").read_text(encoding="utf-8"))
    result["peak_mb"] = peak / 1e6
    result["import_s"] = import_cpu(contestant.python, script)
    return result


def family(pid: int, work: Path) -> Iterator[psutil.Process]:
    """A process, its children, and the PostgreSQL whose files lie in `work`."""
    pids = [pid]
    for file in work.glob("home/postgres/*/postmaster.pid"):
        # While the data folder is made, a single process writes its number with a minus.
        pids += [abs(int(line)) for line in file.read_text().splitlines()[:1]]
    for root in pids:
        try:
            process = psutil.Process(root)
            yield process
            yield from process.children(recursive=True)
        except psutil.Error:
            continue


def _memory(processes: Iterator[psutil.Process]) -> Iterator[int]:
    for process in processes:
        try:
            yield process.memory_full_info().pss
        except psutil.Error:
            continue


def quality(result: dict[str, Any], corpus: Corpus) -> dict[str, dict[str, float]]:
    """Metrics of hybrid search by question set, and of all questions."""
    rankings: dict[str, list[str]] = result["hybrid"]["rankings"]
    relevant = {name: rows for rows in corpus.relevant.values() for name, rows in rows.items()}
    values = {
        name: means(measures({key: rankings[key] for key in rows}, rows))
        for name, rows in corpus.relevant.items()
    }
    return values | {"all": means(measures(rankings, relevant))}


@dataclass
class Column:
    """One figure of every contestant; of Ragstone's two stores the better one counts."""

    title: str
    read: Callable[[dict[str, Any]], float | None]
    digits: int = 1
    largest: bool = False

    def best(self, results: dict[str, dict[str, Any]]) -> tuple[str, float]:
        found = {name: value for name, row in results.items() if (value := self.read(row)) is not None}
        name = (max if self.largest else min)(found, key=lambda one: found[one])
        return name, found[name]


def columns(corpus: Corpus) -> dict[str, list[Column]]:
    def figure(*path: str) -> Callable[[dict[str, Any]], float | None]:
        def read(row: dict[str, Any]) -> float | None:
            value: Any = row
            for key in path:
                value = value.get(key) if value is not None else None
            return value

        return read

    def speed(row: dict[str, Any]) -> float:
        return 1000 / (corpus.embed_cpu_ms + row["ingest_cpu_ms"])

    metric = {
        name: Column(name, figure("quality", "all", name), 3, largest=True)
        for name in ("recall@10", "mrr@10", "ndcg@10")
    }
    sets = [Column(f"mrr@10 {name}", figure("quality", name, "mrr@10"), 3, largest=True) for name in ASKED]
    return {
        "Putting in, and what it takes": [
            Column("ingest CPU ms a chunk", figure("ingest_cpu_ms"), 2),
            Column("chunks a CPU s, with embedding", speed, 1, largest=True),
            Column("in documents of 16, CPU ms a chunk", figure("file_cpu_ms"), 2),
            Column("peak MB", figure("peak_mb"), 0),
            Column("disk MB", figure("disk_mb"), 0),
            Column("import CPU s", figure("import_s"), 2),
        ],
        "Search": [
            *(Column(f"{mode} CPU ms", figure(mode, "cpu_ms")) for mode in ("hybrid", "vector", "text")),
            *(Column(f"hybrid {part} ms", figure("hybrid", f"{part}_ms")) for part in ("p50", "p95")),
        ],
        "Vector search through a filter": [
            Column("1%: CPU ms", figure("percent", "cpu_ms")),
            Column("1%: recall@10", figure("percent", "recall"), 3, largest=True),
            Column("10%: CPU ms", figure("tenth", "cpu_ms")),
            Column("10%: recall@10", figure("tenth", "recall"), 3, largest=True),
        ],
        "What hybrid search finds": [*metric.values(), *sets],
    }


def table(title: str, some: Sequence[Column], results: dict[str, dict[str, Any]]) -> list[str]:
    lines = [
        f"## {title}",
        "",
        "| | " + " | ".join(column.title for column in some) + " |",
        "|---" * (len(some) + 1) + "|",
    ]
    for row in results.values():
        cells: list[str] = []
        for column in some:
            value, best = column.read(row), column.best(results)[1]
            text = "" if value is None else f"{value:.{column.digits}f}"
            cells.append(f"**{text}**" if value is not None and text == f"{best:.{column.digits}f}" else text)
        lines.append(f"| {row['title']} {row['version']} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def not_first(parts: dict[str, list[Column]], results: dict[str, dict[str, Any]]) -> list[str]:
    """Every column that neither of Ragstone's stores leads, and why."""
    lines: list[str] = []
    if not results.keys() & OWN.keys():
        return lines
    for column in (column for some in parts.values() for column in some):
        first, best = column.best(results)
        own = column.best({name: row for name, row in results.items() if name in OWN})[1]
        if first in OWN or f"{own:.{column.digits}f}" == f"{best:.{column.digits}f}":
            continue
        reason = REASONS.get(column.title, "")
        figures = f"{own:.{column.digits}f} against {best:.{column.digits}f} of {results[first]['title']}"
        lines.append(f"- {column.title}: {figures}. {reason}".rstrip())
    return lines or ["Ragstone is first in every column."]


def written(corpus: Corpus, results: dict[str, dict[str, Any]]) -> str:
    parts = columns(corpus)
    lines = [
        "# Ragstone beside other libraries",
        "",
        "    python benchmarks/peers.py --install",
        "",
        f"{os.cpu_count()} cores, {platform.machine()}, load average {os.getloadavg()[0]:.0f}. "
        f"{corpus.passages} passages (English, Simplified and "
        f"Traditional Chinese), a chunk each, {sum(map(len, corpus.relevant.values()))} questions. The "
        "vectors are those of multilingual-e5-small and the same for all; embedding is taken off, and takes "
        f"{corpus.embed_cpu_ms:.0f} CPU ms a passage. CPU counts every thread and PostgreSQL; memory "
        "is the most that all processes held together (PSS). Compare ratios, not times. Bold is best.",
        "",
        "Only Ragstone with PostgreSQL and haiku-rag-slim keep what was put in on disk, safe against a "
        "crash; for the others `disk` is what they save when they are told to.",
        "",
    ]
    for title, some in parts.items():
        lines += table(title, some, results)
    lines += ["## Where Ragstone is not first", "", *not_first(parts, results)]
    return "\n".join(lines) + "\n"


def contestants(cache: Path, only: Sequence[str], *, install: bool) -> list[Contestant]:
    own = [Contestant(name, title, Path(sys.executable)) for name, title in OWN.items()]
    others = [
        Contestant(library.name, library.title, library.python)
        for library in libraries(cache, install=install)
        if library.python is not None
    ]
    return [one for one in (*own, *others) if others and (not only or one.name in only)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=SETS)
    parser.add_argument("--install", action="store_true", help="make the virtual environments")
    parser.add_argument("--only", action="append", default=[], help="this contestant; may be repeated")
    parser.add_argument("--resume", action="store_true", help="measure only those not measured before")
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args()
    if not options.folder.is_dir():
        print(f"no sets in {options.folder}: nothing to measure")
        return
    chosen = contestants(options.cache, options.only, install=options.install)
    if not chosen:
        print(NOT_INSTALLED)
        return
    corpus = asyncio.run(corpus_at(options.cache / f"corpus-{QUESTIONS}", options.folder))
    results: dict[str, dict[str, Any]] = {}
    for contestant in chosen:
        started = time.perf_counter()
        kept = options.cache / f"{contestant.name}.json"
        if options.resume and kept.exists():
            row = json.loads(kept.read_text(encoding="utf-8"))
        else:
            row = measured(contestant, corpus)
            kept.write_text(json.dumps(row), encoding="utf-8")
        results[contestant.name] = row | {"title": contestant.title, "quality": quality(row, corpus)}
        print(f"{contestant.title}: {time.perf_counter() - started:.0f} s", flush=True)
    text = written(corpus, results)
    print(text)
    if not options.only:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
