"""The demonstration with the real embedding model, and sources that open."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from command_line import CommandLine

from ragstone.cli.demo import QUESTIONS, copy_samples

WANTED = (
    ("12 metres", "lake-orrin-2024.pdf", 2),
    ("450", "差旅报销制度.md", None),
    ("22:15", "night-ferry.html", None),
)


@pytest.fixture
def real(ragstone: CommandLine, local_model_folder: Path) -> CommandLine:
    """The command with the local model, converted once for all tests."""
    models = ragstone.home / "models"
    if not models.exists():
        models.symlink_to(local_model_folder, target_is_directory=True)
    return CommandLine(home=ragstone.home, folder=ragstone.folder, settings={"RAGSTONE_TEST_EMBEDDER": ""})


def test_the_demo_answers_three_questions_with_sources_that_open(real: CommandLine) -> None:
    shown = real("demo")
    assert shown.code == 0, shown.err
    assert shown.err.count("RAGSTONE_CHAT_BASE_URL") == 1
    for question, (answer, name, _) in zip(QUESTIONS, WANTED, strict=True):
        assert question in shown.out
        assert answer in shown.out
        assert str(real.home / "samples" / name) in shown.out
    assert "page 2" in shown.out
    assert "ragstone add ~/Documents" in shown.out

    value = real("demo", "--json", RAGSTONE_LANG="zh").json
    for question, found, (answer, name, page) in zip(QUESTIONS, value["answers"], WANTED, strict=True):
        first = found["citations"][0]
        assert (found["query"], found["answered"], first["page"]) == (question, True, page)
        assert answer in found["answer"]
        path = Path(url2pathname(urlsplit(first["uri"]).path))
        assert path.name == name
        text = real("parse", path, "--json").json["text"]
        assert text[first["start"] : first["end"]] == first["quote"]


def test_sample_documents_that_were_changed_stay(tmp_path: Path) -> None:
    copy_samples(tmp_path / "samples")
    (tmp_path / "samples" / "rooftop-garden.md").write_text("mine")
    copy_samples(tmp_path / "samples")
    assert (tmp_path / "samples" / "rooftop-garden.md").read_text() == "mine"
    assert len(list((tmp_path / "samples").iterdir())) == 4


def test_doctor_finds_that_everything_works(real: CommandLine) -> None:
    ended = real("doctor", "--json")
    checks = {check["name"]: check for check in ended.json["checks"]}
    assert ended.code == 0, checks
    assert "multilingual-e5-small" in checks["embeddings"]["message"]
    assert "pgvector" in checks["database"]["message"]
    assert checks["chat"]["status"] == "note"
    assert "Everything works." in real("doctor").out


def test_another_model_than_that_of_the_base_is_refused_with_the_way_out(real: CommandLine) -> None:
    (real.folder / "note.md").write_text("# Note\n\nSome words.\n")
    assert real("add", "note.md", "--base", "of-one-model").code == 0
    ended = real("add", "note.md", "--base", "of-one-model", RAGSTONE_TEST_EMBEDDER="fake")
    assert ended.code == 1
    assert "ragstone reindex --base 'of-one-model'" in ended.err
    assert ended.err.count("\n") == 1
