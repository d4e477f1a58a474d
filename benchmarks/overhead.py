"""What one Advanced query costs above its models and retrievers, beside three other libraries.

    python benchmarks/overhead.py [--install] [--cache FOLDER]

Compress a follow-up, expand it to four wordings, search each with two retrievers, fuse,
rerank 20 to 5, augment, generate. Chat model, retrievers and reranker are fakes that
answer at once, the same in every library; the CPU they take when called by themselves is
taken off. Writes benchmarks/results/overhead.md when the other libraries are installed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from contestants.environments import CACHE, NOT_INSTALLED, libraries

RESULTS = Path(__file__).parent / "results" / "overhead.md"
SCRIPTS = Path(__file__).parent / "contestants"
GOAL_MS = 3.0


def overhead(python: Path, name: str, what: str = "ask") -> tuple[float, float]:
    """CPU milliseconds of one query: (above its parts, of its parts). The least of three processes."""
    runs: list[tuple[float, float]] = []
    for _ in range(3):
        command = [str(python), "-W", "ignore", str(SCRIPTS / f"query_{name}.py"), what]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        spent = json.loads(done.stdout.splitlines()[-1])
        runs.append((spent["whole"] - spent["parts"], spent["parts"]))
    return min(runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--install", action="store_true", help="make the virtual environments")
    parser.add_argument("--cache", type=Path, default=CACHE)
    options = parser.parse_args()
    own = Path(sys.executable)
    search, _ = overhead(own, "ragstone", "search")
    ask, parts = overhead(own, "ragstone")
    rows = [
        f"| Ragstone, up to the prompt's passages | {search:.2f} | {parts:.2f} | {search / ask:.2f} |",
        f"| Ragstone, with citations checked | {ask:.2f} | {parts:.2f} | 1.00 |",
    ]
    others = [
        library
        for library in libraries(options.cache, install=options.install)
        if library.python is not None and (SCRIPTS / f"query_{library.name}.py").exists()
    ]
    for library in others:
        assert library.python is not None
        above, parts = overhead(library.python, library.name)
        rows.append(f"| {library.packages[0]} | {above:.2f} | {parts:.2f} | {above / ask:.2f} |")
    text = "\n".join([*_opening(), *rows, "", *_closing(max(search, ask))])
    print(text)
    if others:
        RESULTS.write_text(text, encoding="utf-8")
    else:
        print(NOT_INSTALLED)


def _opening() -> list[str]:
    return [
        "# What a pipeline costs by itself",
        "",
        "    python benchmarks/overhead.py --install",
        "",
        f"{os.cpu_count()} cores, {platform.machine()}, load average {os.getloadavg()[0]:.0f}. "
        "One Advanced query: compress a "
        "follow-up, expand to four wordings, search each with two retrievers, fuse, rerank 20 to 5, augment, "
        "generate. Models and retrievers are fakes that answer at once; what they take by themselves is "
        "taken off. Compare ratios, not times.",
        "",
        "| pipeline | CPU ms above its parts | its parts | ratio |",
        "|---|---|---|---|",
    ]


def _closing(own: float) -> list[str]:
    return [
        f"The goal is under {GOAL_MS:.0f} ms for Ragstone: {'met' if own < GOAL_MS else 'missed'}. "
        "It searches a fifth time, with the follow-up as it was asked; keeps every stage's score and rank on "
        "each hit; "
        "checks what the answer cites; and notes what each stage did. The others do none of these here, "
        "and langchain joins the wordings' hits without ranking them anew.",
        "",
    ]


if __name__ == "__main__":
    main()
