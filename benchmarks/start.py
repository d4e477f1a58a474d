"""From an empty home to the first cited answer, and what a second run costs.

    python benchmarks/start.py [FOLDER]

Seconds and CPU seconds of whole commands (with the PostgreSQL they start), peak memory of
all processes together, the installed size of `ragstone[kb]`, and start-up of the command
line and of `import ragstone`. FOLDER (default: the sample documents, eight times over) is
added twice. Writes benchmarks/results/start.md.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import as_file, files
from pathlib import Path

import psutil
from packaging.requirements import Requirement

RESULTS = Path(__file__).parent / "results" / "start.md"
COMMAND = str(Path(sys.executable).parent / "ragstone")
COPIES = 8


@dataclass
class Cost:
    """What one command took: seconds, CPU seconds, and peak memory of its processes together."""

    wall: float
    cpu: float
    peak_mb: float
    output: str


def run(*arguments: str, home: Path) -> Cost:
    environment = os.environ | {"RAGSTONE_HOME": str(home), "RAGSTONE_LANG": "en"}
    started, clock = time.time(), time.perf_counter()
    process = subprocess.Popen(
        arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    cpu: dict[int, float] = {}
    peak = 0
    while process.poll() is None:
        memory = 0
        for member in family(process.pid, started):
            try:
                times = member.cpu_times()
                cpu[member.pid] = times.user + times.system
                memory += member.memory_full_info().pss
            except psutil.Error:
                continue
        peak = max(peak, memory)
        time.sleep(0.02)
    wall = time.perf_counter() - clock
    output = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}:\n{output}")
    return Cost(wall, sum(cpu.values()), peak / 1e6, output)


def family(pid: int, started: float) -> Iterator[psutil.Process]:
    """The command, its children, and servers begun since (they leave the command's session)."""
    for member in psutil.process_iter(["name", "create_time"]):
        try:
            descends = member.pid == pid or pid in (parent.pid for parent in member.parents())
            server = member.info["name"] == "postgres" and member.info["create_time"] >= started - 1
        except psutil.Error:
            continue
        if descends or server:
            yield member


def installed(extra: str) -> tuple[int, float]:
    """How many packages `ragstone[extra]` brings and their size in MB on disk."""
    todo, seen = [f"ragstone[{extra}]"], set[str]()
    packages, size = set[str](), 0
    while todo:
        requirement = Requirement(todo.pop())
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        try:
            found = distribution(requirement.name)
        except PackageNotFoundError:
            continue
        if found.name not in packages:
            packages.add(found.name)
            size += sum(
                path.stat().st_size
                for file in found.files or ()
                if (path := Path(str(file.locate()))).is_file()
            )
        for text in found.requires or ():
            needed = Requirement(text)
            extras = requirement.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": name}) for name in extras):
                todo.append(re.sub(r";.*", "", text).strip())
    return len(packages), size / 1e6


def start_up(*arguments: str) -> float:
    """CPU seconds of a command, the least of five runs."""
    least = 1e9
    for _ in range(5):
        before = os.times()
        subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        least = min(least, spent)
    return least


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="ragstone-start-") as folder:
        home, papers = Path(folder) / "home", Path(folder) / "papers"
        if len(sys.argv) > 1:
            papers = Path(sys.argv[1])
        else:
            with as_file(files("ragstone.kb") / "samples") as samples:
                for copy in range(COPIES):
                    target = papers / str(copy)
                    shutil.copytree(samples, target)
                    for file in target.glob("*.md"):  # equal texts would share their embeddings
                        file.write_text(
                            file.read_text("utf-8")
                            .replace("。", f"（{copy}）。")
                            .replace(". ", f" ({copy}). ")
                        )
        demo, again = run(COMMAND, "demo", home=home), run(COMMAND, "demo", home=home)
        first = run(COMMAND, "add", str(papers), "--base", "papers", home=home)
        second = run(COMMAND, "add", str(papers), "--base", "papers", home=home)
    packages, size = installed("kb")
    python = [sys.executable, "-c"]
    rows = [
        ("`ragstone demo`, empty home: to the third cited answer", demo),
        ("`ragstone demo`, second time", again),
        (f"`ragstone add`, {len(list(papers.rglob('*'))) or 'given'} files", first),
        ("`ragstone add`, the same folder again", second),
    ]
    lines = [
        "# Start\n",
        "    python benchmarks/start.py\n",
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}.",
        "Compare ratios, not times.\n",
        "| command | wall s | CPU s | peak MB, all processes |\n|---|---|---|---|",
        *(f"| {name} | {cost.wall:.2f} | {cost.cpu:.2f} | {cost.peak_mb:.0f} |" for name, cost in rows),
        f"\nThe second `add` takes {second.wall / first.wall:.3f} of the first's time"
        f" and {second.cpu / first.cpu:.3f} of its CPU: {second.output.strip().splitlines()[-1]}\n",
        "| start-up | CPU s |\n|---|---|",
        f"| `python -c pass` | {start_up(*python, 'pass'):.3f} |",
        f"| `import ragstone` | {start_up(*python, 'import ragstone'):.3f} |",
        f"| `ragstone --help` | {start_up(COMMAND, '--help'):.3f} |",
        f"\nInstalled size of `ragstone[kb]`: {packages} packages, {size:.0f} MB.",
    ]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(RESULTS.read_text("utf-8"))


if __name__ == "__main__":
    main()
