"""`ragstone eval`: a dataset is indexed, asked, measured, and leaves nothing behind."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from command_line import CommandLine

NAMES = ["queries", "hit@1", "recall@1", "recall@5", "recall@10", "mrr@10", "ndcg@10"]
COSTS = ["index_s", "index_cpu_s", "queries_per_s", "p50_ms", "p95_ms"]
ANIMALS = ("otter", "heron", "beetle", "badger", "curlew", "lizard", "marten", "plover", "weasel", "salmon")


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    folder = tmp_path / "animals"
    folder.mkdir()
    # The name stands in the title alone: it is indexed in front of the text.
    corpus = [
        {"id": f"p {n}", "title": name, "text": "It lives by the river."} for n, name in enumerate(ANIMALS)
    ]
    queries = [{"id": f"q{n}", "text": f"Where is the {name}?"} for n, name in enumerate(ANIMALS)]
    queries.append({"id": "q-blank", "text": " "})
    queries.append({"id": "q-none", "text": "Who is the mayor?"})
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    rows = "".join(f"q{n}\tp {n}\t1\n" for n in range(len(ANIMALS)))
    rows += "q-blank\tp 0\t1\n"
    (folder / "qrels.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    return folder


@pytest.mark.parametrize("mode", ["hybrid", "text", "vector"])
def test_it_measures_and_leaves_no_base(ragstone: CommandLine, dataset: Path, mode: str) -> None:
    before = ragstone("list", "--json").out
    result = ragstone("eval", str(dataset), "--mode", mode, "--json")
    assert result.code == 0
    values = json.loads(result.out)
    assert list(values)[:1] == ["mode"]
    assert set(NAMES + COSTS) <= set(values)
    assert (values["queries"], values["failed"], values["passages"]) == (11, 0, 10)
    assert [values[name] for name in NAMES[1:]] == [round(10 / 11, 4)] * 6
    assert all(values[name] >= 0 for name in COSTS)
    assert ragstone("list", "--json").out == before


def test_a_named_base_is_kept_and_not_indexed_twice(ragstone: CommandLine, dataset: Path) -> None:
    first = ragstone("eval", str(dataset), "--base", "kept", "--limit", "3", "--mode", "text", "--json")
    assert json.loads(first.out)["queries"] == 3
    listed = ragstone("list", "--base", "kept", "--json").out
    assert listed.count('"p 3"') >= 1
    again = ragstone("eval", str(dataset), "--base", "kept")
    assert (again.code, "mrr@10" in again.out) == (0, True)
    assert ragstone("list", "--base", "kept", "--json").out == listed


def test_the_corpus_may_be_named(ragstone: CommandLine, dataset: Path, tmp_path: Path) -> None:
    moved = tmp_path / "passages.jsonl"
    (dataset / "corpus.jsonl").rename(moved)
    refused = ragstone("eval", str(dataset), "--json")
    assert (refused.code, json.loads(refused.out)["error"]["code"]) == (2, "evaluate.no_corpus")
    moved.write_text("\n".join(moved.read_text().splitlines()[1:]))
    result = ragstone("eval", str(dataset), "--corpus", str(moved), "--mode", "text", "--json")
    assert json.loads(result.out)["hit@1"] == round(9 / 11, 4)
    assert "1 relevant ids" in result.err


@pytest.mark.parametrize("arguments", [["nowhere"], ["--limit", "0"], ["--mode", "magic"], []])
def test_wrong_usage_is_said(light: CommandLine, dataset: Path, arguments: list[str]) -> None:
    folder = [str(dataset)] if arguments and arguments[0].startswith("-") else []
    assert light("eval", *folder, *arguments).code == 2


def test_ctrl_c_takes_the_base_away(ragstone: CommandLine, dataset: Path) -> None:
    text = "A long passage about rivers. " * 40
    with (dataset / "corpus.jsonl").open("a") as file:
        for n in range(20_000):
            file.write("\n" + json.dumps({"id": f"more{n}", "title": "", "text": text}))
    before = ragstone("list", "--json").out
    process = ragstone.start("eval", str(dataset), "--json")
    try:
        for _ in range(600):
            if "eval-" in ragstone("list", "--json").out:
                break
        else:
            pytest.fail("no base was made")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    except BaseException:
        process.kill()
        raise
    finally:
        process.communicate()
    assert ragstone("list", "--json").out == before
    assert isinstance(process, subprocess.Popen)
