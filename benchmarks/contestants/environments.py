"""Virtual environments for the libraries of requirements.toml, kept in a cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REQUIREMENTS = Path(__file__).parent / "requirements.toml"
CACHE = Path(tempfile.gettempdir()) / "ragstone-peers"
NOT_INSTALLED = "the other libraries are not installed: `make bench-peers` installs them and measures"
# None of the libraries needs it here, and it would fill the disk.
REFUSED = "torch<0\n"


@dataclass(frozen=True)
class Library:
    """A library of requirements.toml; `python` is None where it is not installed."""

    name: str
    title: str
    packages: tuple[str, ...]
    python: Path | None


def libraries(cache: Path, *, install: bool) -> list[Library]:
    """All libraries; with `install`, those that are missing are installed first where they can be."""
    found: list[Library] = []
    for name, entry in tomllib.loads(REQUIREMENTS.read_text(encoding="utf-8")).items():
        packages = tuple(entry["packages"])
        digest = hashlib.sha256("\n".join(packages).encode()).hexdigest()[:8]
        folder = cache / "environments" / f"{name}-{digest}"
        python = folder / "bin" / "python"
        if install and not (folder / "complete").exists():
            _install(folder, packages, entry.get("python", ""))
        there = (folder / "complete").exists()
        found.append(Library(name, entry["title"], packages, python if there else None))
    return found


def _install(folder: Path, packages: tuple[str, ...], needs: str) -> None:
    interpreter = next(_interpreters(needs), None)
    if interpreter is None:
        print(f"{packages[0]} needs Python {needs} or later, which was not found: left out")
        return
    print(f"installing {', '.join(packages)} ...", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([interpreter, "-m", "venv", str(folder)], check=True)
    constraints = folder / "constraints.txt"
    constraints.write_text(REFUSED)
    arguments = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", str(constraints)]
    done = subprocess.run([str(folder / "bin" / "python"), *arguments, *packages], check=False)
    if done.returncode:
        print(f"{packages[0]} could not be installed: left out")
    else:
        (folder / "complete").touch()


def _interpreters(needs: str) -> Iterator[str]:
    """Interpreters that are new enough, this one first."""
    least = tuple(int(part) for part in needs.split(".")) if needs else (3, 11)
    kept = sorted(Path.home().glob(".pyenv/versions/3.1[1-9]*/bin/python"))
    for candidate in (sys.executable, "python3.12", "python3.13", *map(str, kept)):
        code = "import json, sys; print(json.dumps(sys.version_info[:2]))"
        try:
            said = subprocess.run([candidate, "-c", code], capture_output=True, text=True, check=False)
        except OSError:
            continue
        if said.returncode == 0 and tuple(json.loads(said.stdout)) >= least:
            yield candidate


def import_cpu(python: Path, script: Path) -> float:
    """CPU seconds until a script that is given nothing to do has imported its library: the least of three."""
    least = 1e9
    for _ in range(3):
        before = os.times()
        subprocess.run([str(python), str(script)], check=True)
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        least = min(least, spent)
    return least
