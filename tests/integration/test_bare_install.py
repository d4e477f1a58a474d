"""`pip install ragstone` with no extra: the library works, the application says what is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds ragstone and what it cannot do without."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = [sys.executable, "-m", "pip", "--python", programs / "python", "install", "-q", "--no-compile"]
    subprocess.run([*pip, "-c", ROOT / "constraints.txt", ROOT], check=True, timeout=600)
    return programs


def run(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "RAGSTONE_LANG": "en"}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=120)  # type: ignore[call-overload, no-any-return]


def test_it_brings_few_packages(bare: Path, tmp_path: Path) -> None:
    code = "from importlib.metadata import distributions; print(*(d.name.lower() for d in distributions()))"
    names = set(run(bare / "python", "-c", code, cwd=tmp_path).stdout.split())
    assert {"ragstone", "anyio", "numpy"} <= names
    assert names <= {"ragstone", "anyio", "numpy", "idna", "sniffio", "typing_extensions", "exceptiongroup"}


def test_the_program_of_the_readme_runs(bare: Path, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    program = next(
        code for code in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if "MemoryStore" in code
    )
    done = run(bare / "python", "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "22:15" in done.stdout


def test_every_public_name_but_open_works_without_an_extra(bare: Path, tmp_path: Path) -> None:
    code = "import ragstone; print(sum(getattr(ragstone, name) is not None for name in ragstone.__all__))"
    done = run(bare / "python", "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 25


def test_the_application_names_the_missing_extra(bare: Path, tmp_path: Path) -> None:
    command = run(bare / "ragstone", "list", cwd=tmp_path)
    assert (command.returncode, command.stdout) == (2, "")
    assert "[kb]'" in command.stderr
    opened = run(bare / "python", "-c", "import ragstone; ragstone.open()", cwd=tmp_path)
    assert "[kb]" in opened.stderr.splitlines()[-1]
