"""splitter.jsonl and the splitter rows of bugs.jsonl, through the recursive splitter."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import InvalidStage
from ragstone.protocols import Tokenizer
from ragstone.split import Level, RecursiveSplitter
from ragstone.testing import FakeEmbedder
from ragstone.types import Chunk, Document

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"
pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="no shared cases beside the checkout")

LEVELS: dict[str, Level] = {"paragraph": "paragraph", "sentence": "sentence", "recursive": "section"}
SEPARATORS: dict[str, Level] = {"\n\n": "paragraph", "\n": "line", " ": "word"}

# This row's splitter counts the space before a word ("weird text" is 10 characters and fits
# into 10) and cuts at no sentence. Its sizes are those of trimmed slices here, by
# decision 6; the properties are checked all the same.
MEASURED_OTHERWISE = "Hi.\n\nI'm Harrison."


def rows(name: str) -> list[dict[str, Any]]:
    path = CASES / name
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []


SPLITTER = rows("splitter.jsonl")
ARGUMENTS = [row for row in SPLITTER if row["kind"] == "args"]
TEXTS = [row for row in SPLITTER if row["kind"] != "args"]


def plain(text: str) -> str:
    return " ".join(text.split())


def check_properties(text: str, chunks: list[Chunk], max_size: int, tokenizer: Tokenizer | None) -> None:
    size = len if tokenizer is None else tokenizer.count
    covered: set[int] = set()
    for index, chunk in enumerate(chunks):
        assert chunk.index == index
        assert chunk.text == text[chunk.start : chunk.end]
        assert size(chunk.text) <= max_size
        chunk.text.encode("utf-8")
        covered.update(range(chunk.start, chunk.end))
    assert all(character.isspace() for i, character in enumerate(text) if i not in covered)


@pytest.mark.parametrize("row", TEXTS, ids=[f"{n}-{row['kind']}" for n, row in enumerate(TEXTS)])
def test_text_is_cut_as_the_case_says(row: dict[str, Any]) -> None:
    level = SEPARATORS[row["separator"]] if row["kind"] == "separator" else LEVELS.get(row["kind"], "section")
    tokenizer = FakeEmbedder().tokenizer if row["unit"] == "tokens" else None
    splitter = RecursiveSplitter(
        max_size=row["max_size"], overlap=row.get("overlap", 0), tokenizer=tokenizer, level=level
    )
    chunks = splitter(Document(text=row["text"]))
    check_properties(row["text"], chunks, row["max_size"], tokenizer)
    found = [plain(chunk.text) for chunk in chunks]
    by_properties_only = row["kind"] == "token" or row["text"].startswith(MEASURED_OTHERWISE)
    if "expected" in row and not by_properties_only:
        assert found == [plain(text) for text in row["expected"]]
    if "expected_start_index" in row:
        assert [chunk.start for chunk in chunks] == row["expected_start_index"]
    if "expected_last" in row:
        assert found[-1] == row["expected_last"]
    assert set(row.get("expected_contains", ())) <= set(found)


@pytest.mark.parametrize("row", ARGUMENTS)
def test_arguments_that_cannot_work_are_refused(row: dict[str, Any]) -> None:
    with pytest.raises(InvalidStage):
        RecursiveSplitter(max_size=row["max_size"], overlap=row["overlap"])


@pytest.mark.parametrize("overlap", [100, 150])
def test_bug_01_overlap_at_or_over_the_size_names_both(overlap: int) -> None:
    with pytest.raises(InvalidStage) as caught:
        RecursiveSplitter(max_size=100, overlap=overlap)
    assert str(overlap) in str(caught.value)
    assert "100" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "max_size", "overlap"),
    [
        pytest.param("abc\n" * 50, 50, 49, id="bug-02"),
        pytest.param("gamma delta epsilon zeta\n\n" + "x" * 90, 100, 20, id="bug-03-tail"),
        pytest.param("x" * 500, 100, 20, id="bug-03-one-word"),
        pytest.param("Ten words make one short line of text here. " * 23, 100, 10, id="bug-04"),
        pytest.param("\u00a0" * 200 + "\n\nThe sentence that must stay.", 50, 5, id="bug-06"),
    ],
)
def test_bugs_of_other_splitters_end_with_everything_covered(text: str, max_size: int, overlap: int) -> None:
    chunks = RecursiveSplitter(max_size=max_size, overlap=overlap)(Document(text=text))
    check_properties(text, chunks, max_size, None)
    assert all(before.end < after.end for before, after in pairwise(chunks))


def test_every_kind_of_case_is_read() -> None:
    known = {"paragraph", "sentence", "separator", "recursive", "args", "token", "robust"}
    assert {row["kind"] for row in SPLITTER} == known
