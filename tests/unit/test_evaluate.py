"""Datasets as they are read, and what the metrics say."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from ragstone.errors import InputError, SourceNotFound
from ragstone.evaluate import Dataset, means, measures, ranking, read_dataset
from ragstone.types import Chunk, Hit, Message

pytestmark = pytest.mark.anyio


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        (folder / f"{stem}.{suffix}").write_text(text, encoding="utf-8")
    return folder


def lines(*rows: object) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


CORPUS = lines(
    {"id": "p1", "title": "Lamps", "text": "Lamps burn oil."}, {"id": 2, "title": None, "text": "灯"}
)
QUERIES = lines(
    {"id": "q1", "text": "What burns?"},
    {"id": "q2", "text": "灯？", "history": [{"role": "user", "content": "hi"}]},
    {"id": "q3", "text": "Nothing?"},
)
QRELS = "query-id\tcorpus-id\tscore\nq1\tp1\t2\nq2\t2\t1\nq2\tp1\t0\n\nq3\tp1\t0\nq9\tp1\t1\n"


def good(folder: Path) -> Path:
    return write(folder, corpus_jsonl=CORPUS, queries_jsonl=QUERIES, qrels_tsv=QRELS)


def test_only_questions_with_a_relevant_passage_count(tmp_path: Path) -> None:
    dataset = read_dataset(good(tmp_path))
    assert [(p.corpus_id, p.title, p.text) for p in dataset.passages] == [
        ("p1", "Lamps", "Lamps burn oil."),
        ("2", "", "灯"),
    ]
    assert [(q.query_id, q.text) for q in dataset.questions] == [("q1", "What burns?"), ("q2", "灯？")]
    assert dataset.questions[1].history == (Message(role="user", content="hi"),)
    assert (dataset.relevant["q1"], dataset.relevant["q2"]) == ({"p1": 2}, {"2": 1})
    assert dataset.missing == 0


def test_the_corpus_may_be_a_file_elsewhere(tmp_path: Path) -> None:
    folder = write(tmp_path / "set", queries_jsonl=QUERIES, qrels_tsv=QRELS)
    with pytest.raises(SourceNotFound, match="--corpus"):
        read_dataset(folder)
    write(tmp_path, other_jsonl=lines({"id": "p1", "text": "x"}))
    dataset = read_dataset(folder, corpus=tmp_path / "other.jsonl")
    assert (len(dataset.passages), dataset.missing) == (1, 1)


def test_a_limit_takes_the_first_of_a_shuffle_that_never_changes(tmp_path: Path) -> None:
    queries = lines(*({"id": f"q{n}", "text": "x"} for n in range(30)))
    qrels = "q\tc\ts\n" + "".join(f"q{n}\tp1\t1\n" for n in range(30))
    folder = write(tmp_path, corpus_jsonl=CORPUS, queries_jsonl=queries, qrels_tsv=qrels)
    dataset = read_dataset(folder)
    ten = [item.query_id for item in dataset.first(10).questions]
    assert ten == [item.query_id for item in read_dataset(folder).first(20).questions][:10]
    assert len(set(ten)) == 10
    assert ten != [f"q{n}" for n in range(10)]
    assert len(dataset.first(99).questions) == 30


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("queries_jsonl", '{"id": "q1", "text": "x"}\n{"id": "q1", "text": "y"}\n', "Line 2"),
        ("queries_jsonl", '{"id": "q1", "text": "x"}\n\n{broken\n', "Line 3"),
        ("queries_jsonl", '["q1", "x"]\n', "Line 1"),
        ("queries_jsonl", '{"id": "q1", "text": null}\n', "“text”"),
        ("queries_jsonl", '{"text": "x"}\n', "“id”"),
        ("queries_jsonl", '{"id": "q1", "text": "x", "history": ["hi"]}\n', "“history”"),
        ("queries_jsonl", '{"id": "other", "text": "x"}\n', "no question has a relevant passage"),
        ("corpus_jsonl", '{"id": "p1", "text": 7}\n', "“text”"),
        ("corpus_jsonl", "\n", "no passage"),
        ("qrels_tsv", "q\tc\ts\nq1 p1 1\n", "Line 2"),
        ("qrels_tsv", "q\tc\ts\nq1\tp1\tyes\n", "“yes”"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, file: str, text: str, said: str) -> None:
    folder = write(good(tmp_path), **{file: text})
    with pytest.raises(InputError) as caught:
        read_dataset(folder)
    assert said in str(caught.value)
    assert file.rpartition("_")[0] in str(caught.value) or str(folder) in str(caught.value)
    assert caught.value.text("zh") != str(caught.value)


def test_what_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound, match="no folder"):
        read_dataset(tmp_path / "nowhere")
    folder = good(tmp_path)
    (folder / "qrels.tsv").unlink()
    with pytest.raises(SourceNotFound, match=r"qrels\.tsv"):
        read_dataset(folder)
    (folder / "queries.jsonl").write_bytes('{"id": "q1", "text": "灯"}'.encode("gbk"))
    with pytest.raises(InputError, match="UTF-8"):
        read_dataset(folder)


def test_metrics_by_hand() -> None:
    relevant = {"first": {"a": 1}, "third": {"a": 1}, "half": {"a": 1, "b": 1}, "none": {"a": 1}}
    many = [f"x{n}" for n in range(20)]
    values = measures(
        {"first": ["a", "b"], "third": ["x", "y", "a"], "half": ["a", *many, "b"], "none": []}, relevant
    )
    assert values["first"] == pytest.approx(dict.fromkeys(values["first"], 1.0))
    assert values["third"]["mrr@10"] == pytest.approx(1 / 3)
    assert values["third"]["ndcg@10"] == pytest.approx(1 / math.log2(4))
    assert [values["third"][name] for name in ("hit@1", "recall@1", "recall@5")] == [0, 0, 1]
    # What stands behind the tenth place does not count.
    assert [values["half"][name] for name in ("hit@1", "recall@1", "recall@10")] == [1, 0.5, 0.5]
    assert set(values["none"].values()) == {0.0}
    assert means(values)["mrr@10"] == pytest.approx((1 + 1 / 3 + 1 + 0) / 4)


async def test_the_best_chunk_stands_for_its_document_until_ten_are_found() -> None:
    def hits(top_k: int, documents: int, chunks: int) -> list[Hit]:
        found: list[Hit] = []
        for number in range(documents * chunks):
            chunk = Chunk(text="x", document_id="d", index=number, start=0, end=1)
            found.append(Hit(chunk=chunk, uri=f"u{number // chunks}", title=""))
        return found[:top_k]

    for documents, chunks, expected, asked in [(50, 1, 10, [20]), (50, 7, 10, [20, 40, 80]), (3, 4, 3, [20])]:
        wanted: list[int] = []

        async def search(top_k: int) -> list[Hit]:
            wanted.append(top_k)  # noqa: B023 (called within this turn)
            return hits(top_k, documents, chunks)  # noqa: B023

        ids = await ranking(search, lambda hit: hit.uri)
        assert ids == [f"u{n}" for n in range(expected)]
        assert wanted == asked


def test_an_empty_dataset_has_no_missing() -> None:
    assert Dataset(passages=(), questions=(), relevant={}).missing == 0
