"""A home made by the first build is opened, searched, asked and added to by this one.

`tests/kept/home-0.1.tar.xz` has two bases, documents of five kinds (three by `ragstone add`, the rest
uploaded), a session of two answers and a job that failed; `tests/kept/papers` are the files.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest
from command_line import CommandLine

from serving import serving

KEPT = Path(__file__).parents[1] / "kept"
PAPERS = Path("/tmp/ragstone-kept-papers")
"""Where the files lay when the home was made: a document is known by its address."""
LOCAL = {"test_embedder": ""}
ADDED = ("ferry.md", "lighthouse.pdf", "contract.docx")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, local_model_folder: Path) -> Iterator[Path]:
    """The kept home, unpacked, and its embedded server, which ends with the module."""
    from ragstone.postgres.cluster import Cluster

    folder = tmp_path_factory.mktemp("kept")
    with tarfile.open(KEPT / "home-0.1.tar.xz") as archive:
        archive.extractall(folder, filter="tar")
    shutil.copytree(KEPT / "papers", PAPERS, dirs_exist_ok=True)
    home = folder / "home"
    (home / "models").symlink_to(local_model_folder)
    cluster = Cluster(home)
    if owner := cluster.account.owner:  # as root the server is another user
        for path in (home / "postgres", *(home / "postgres").rglob("*")):
            os.chown(path, *owner)
    try:
        cluster.attach(lambda key, values: None)
        yield home
    finally:
        cluster.release()


@pytest.fixture
def ragstone(home: Path, tmp_path: Path) -> CommandLine:
    return CommandLine(home=home, folder=tmp_path, settings={"RAGSTONE_TEST_EMBEDDER": ""})


@pytest.fixture(scope="module")
def api(home: Path) -> Iterator[httpx.Client]:
    with serving(home, **LOCAL) as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


def base_ids(api: httpx.Client) -> dict[str, str]:
    return {base["name"]: base["base_id"] for base in api.get("/api/bases").json()["items"]}


def test_its_bases_and_documents_are_listed(ragstone: CommandLine) -> None:
    bases = {base["name"]: base["documents"] for base in ragstone("list", "--json").json["bases"]}
    assert bases == {"harbour": 5, "渡轮": 1}


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("When does the last ferry to Halm leave?", "21:40 from pier 3"),
        ("luggage liability", "800 crowns"),
        ("lost property", "ninety days"),
        ("depth of the berth of the Gull", "4.8"),
        ("退票", "百分之八十"),
    ],
)
def test_it_is_searched(ragstone: CommandLine, question: str, found: str) -> None:
    hits = ragstone("search", question, "--json").json["hits"]
    assert any(found in hit["text"] for hit in hits[:2])


def test_it_is_asked(ragstone: CommandLine) -> None:
    answer = ragstone("ask", "What was the name of the keeper's dog?", "--json").json
    assert "Bosun" in answer["answer"]
    assert answer["citations"][0]["page"] == 3


@pytest.mark.parametrize(
    ("question", "name"),
    [("lost property", "harbour.html"), ("退票", "渡轮须知.md"), ("luggage liability", "contract.docx")],
)
def test_a_passage_is_named_by_its_file(
    ragstone: CommandLine, api: httpx.Client, question: str, name: str
) -> None:
    assert ragstone("search", question, "--json").json["hits"][0]["name"] == name
    answer = ragstone("ask", question, "--json").json
    assert name in {citation["name"] for citation in answer["citations"]}
    assert name in ragstone("ask", question).out
    assert api.post("/api/search", json={"query": question}).json()["hits"][0]["name"] == name
    assert name in {
        source["name"] for source in api.post("/api/ask", json={"question": question}).json()["sources"]
    }


def test_the_same_files_are_unchanged_and_nothing_is_embedded(ragstone: CommandLine) -> None:
    added = ragstone("add", *(str(PAPERS / name) for name in ADDED), "--base", "harbour", "--json")
    summary = added.events[-1]
    assert (summary["unchanged"], summary["ready"], summary["embedded"]) == (len(ADDED), 0, 0)


def test_the_same_uploads_are_duplicates(api: httpx.Client) -> None:
    bases = base_ids(api)
    for base, name in (("harbour", "harbour.html"), ("harbour", "berths.xlsx"), ("渡轮", "渡轮须知.md")):
        files = {"files": (name, (PAPERS / name).read_bytes())}
        answer = api.post(f"/api/bases/{bases[base]}/documents", files=files)
        assert [item["outcome"] for item in answer.json()["items"]] == ["duplicate"]


def test_its_session_goes_on(api: httpx.Client) -> None:
    session = api.get("/api/sessions").json()["items"][0]["session_id"]
    before = api.get(f"/api/sessions/{session}/export").text
    assert "21:40" in before
    assert "Bosun" in before
    question = {"question": "When does the last ferry to Halm leave?"}
    assert "21:40" in api.post(f"/api/sessions/{session}/messages", json=question).json()["answer"]


def test_its_failed_job_keeps_its_reason_and_is_tried_again(api: httpx.Client) -> None:
    jobs = {job["name"]: job for job in api.get("/api/jobs").json()["items"]}
    assert jobs["broken.pdf"]["state"] == "dead"
    assert jobs["broken.pdf"]["error"]["code"] == "parse.corrupt"
    assert api.post(f"/api/jobs/{jobs['broken.pdf']['job_id']}/replay").status_code == 202
