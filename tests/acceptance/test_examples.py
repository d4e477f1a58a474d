"""Every program of examples/ runs, without a key, and says what it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.resources import as_file, files
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
ON_ITS_OWN = sorted(
    path.stem for path in EXAMPLES.glob("*.py") if path.stem not in ("easy", "sample_documents")
)


def run(name: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONUTF8": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a74_easy_points_at_a_folder_and_asks_in_two_languages(
    tmp_path: Path, local_model_folder: Path
) -> None:
    (tmp_path / "models").symlink_to(local_model_folder, target_is_directory=True)
    questions = ("How wide will the strip of reeds be?", "出租车费能报销吗？")
    with as_file(files("ragstone.kb") / "samples") as samples:
        told = run("easy", str(samples), *questions, RAGSTONE_HOME=str(tmp_path), HOME=str(tmp_path))
    assert "12 metres wide" in told
    assert len(re.findall(r"^  \[1\] ", told, re.MULTILINE)) == 2


def test_a74_naive_quotes_and_refuses() -> None:
    told = run("naive")
    assert "serviced every six months. [1]" in told
    assert "借五本书" in told
    assert "do not answer" in told


def test_a74_advanced_goes_through_every_stage() -> None:
    told = run("advanced")
    assert "A new seal costs 40 euros [1]." in told
    assert "[1] Pumps: A new seal costs 40 euros." in told
    assert "transform expand route retrieve fuse rerank select augment generate cite" in told


def test_a98_modular_shows_four_flows_in_one_program() -> None:
    """Rows A98 and A69: with an empty context allowed the model is asked all the same."""
    lines = run("modular").splitlines()
    assert [line[:2] for line in lines] == ["1.", "2.", "3.", "4.", "  "]
    assert "5 documents" in lines[0]
    assert set(lines[2].split()[-3:]) == {"2024"}
    assert lines[3].endswith("图书馆")
    assert lines[4].strip() == "Good morning."


def test_a41_w13_service_answers_short_questions_or_refuses() -> None:
    told = run("service")
    assert "年假 -> 每年十天 [1]。" in told
    assert "产假 -> no answer" in told
    assert "C++ -> no answer" in told


def test_a65_rerank_reports_both_lists() -> None:
    lines = run("rerank").splitlines()
    assert lines[:3] == ["search: 5 candidates, 2 kept", "before: 2023 2024", "after: 2024 2023"]


@pytest.mark.parametrize("name", ON_ITS_OWN)
def test_examples_are_short_and_listed(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 100
    assert f"../examples/{name}.py" in (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
