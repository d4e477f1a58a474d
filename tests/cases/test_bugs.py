"""bugs.jsonl: each bug of other systems, and the test that would find it here, which is run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from shared_data import SHARED

TESTS = Path(__file__).resolve().parents[1]
FILE = SHARED / "cases" / "bugs.jsonl"
BUGS = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()] if FILE.exists() else []

SPLITTERS = ("cases/test_splitter_cases.py", "test_bugs_of_other_splitters_end_with_everything_covered")

PROVED: Mapping[str, tuple[str, str]] = {
    "bug-01": ("cases/test_splitter_cases.py", "test_bug_01_overlap_at_or_over_the_size_names_both"),
    "bug-02": SPLITTERS,
    "bug-03": SPLITTERS,
    "bug-04": SPLITTERS,
    "bug-06": SPLITTERS,
    "bug-08": ("store_contract/writing.py", "test_text_that_no_database_holds_is_refused"),
    "bug-09": ("unit/test_ingest.py", "test_a_document_the_store_cannot_hold_fails_alone"),
    "bug-10": ("store_contract/writing.py", "test_a_chunk_that_cannot_be_stored_leaves_everything_as_it_was"),
    "bug-12": ("cases/test_filter_cases.py", "test_injection"),
    "bug-13": ("cases/test_filter_cases.py", "test_injection"),
    "bug-14": ("cases/test_filter_cases.py", "test_eval"),
    "bug-15": ("unit/test_bad_questions.py", "test_bug_15_a_top_k_that_cannot_work_is_refused_everywhere"),
    "bug-16": ("store_contract/search.py", "test_a_zero_vector_scores_nothing_and_comes_last"),
    "bug-18": ("unit/test_embed_openai.py", "test_an_answer_that_cannot_be_used_is_an_error_that_says_why"),
    "bug-19": ("unit/test_embed_openai.py", "test_vectors_without_an_index_are_taken_as_they_come"),
    "bug-20": ("unit/test_embed_openai.py", "test_blank_texts_are_never_sent_and_the_rest_stays_aligned"),
    "bug-22": ("store_contract/writing.py", "test_a_base_holds_the_vectors_of_one_model"),
    "bug-23": ("unit/test_embed_openai.py", "test_an_answer_that_cannot_be_used_is_an_error_that_says_why"),
    "bug-25": ("cases/test_sse.py", "test_events_are_the_same_whatever_the_cut"),
    "bug-27": ("cases/test_sse.py", "test_events_are_the_same_whatever_the_cut"),
    "bug-28": ("unit/test_chat_openai.py", "test_a_stream_that_is_no_answer_is_an_error"),
    "bug-30": ("unit/test_transform.py", "test_bug_30_reasoning_is_neither_searched_with_nor_fed_back"),
    "bug-34": ("unit/test_bad_questions.py", "test_bug_34_braces_in_a_question_are_text_for_every_stage"),
    "bug-36": (
        "integration/test_uploads.py",
        "test_a84_w09_ten_uploads_of_the_same_bytes_at_once_are_one_document",
    ),
    "bug-38": (
        "integration/test_uploads.py",
        "test_w09_the_hash_is_of_a_base_and_keep_both_makes_a_second_document",
    ),
    "bug-40": (
        "integration/test_documents_api.py",
        "test_hostile_names_are_kept_as_one_line_and_come_back_as_one",
    ),
    "bug-45": ("integration/test_files.py", "test_a_base_is_deleted_while_uploads_come"),
    "bug-46": (
        "acceptance/test_workers.py",
        "test_c9_w11_a_worker_is_killed_and_the_other_does_its_work_after_one_lease",
    ),
    "bug-39": ("unit/test_parse_pdf.py", "test_a_page_of_pictures_needs_ocr_and_says_so"),
    "bug-41": ("unit/test_parse_decode.py", "test_a_byte_order_mark_is_no_text"),
    "bug-42": ("unit/test_parse_decode.py", "test_text_is_read_in_the_encoding_it_was_written_in"),
    "bug-43": ("unit/test_parse_decode.py", "test_text_is_read_in_the_encoding_it_was_written_in"),
    "bug-44": ("store_contract/concurrency.py", "test_deleting_while_replacing_leaves_all_or_nothing"),
    "bug-47": ("store_contract/writing.py", "test_a_chunk_that_cannot_be_stored_leaves_everything_as_it_was"),
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Counter[str]]:
    """How the tests that are named ended: name -> "passed" or what else, with how many of its cases."""
    report = tmp_path_factory.mktemp("bugs") / "report.xml"
    named = [_node(file, test) for file, test in sorted(set(PROVED.values()))]
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}", *named],
        cwd=TESTS.parent,
        capture_output=True,
        check=False,
    )
    found: dict[str, Counter[str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("name", "").partition("[")[0]
        outcome = next(
            (child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed"
        )
        found.setdefault(name, Counter())[outcome] += 1
    return found


def _node(file: str, test: str) -> str:
    """What pytest calls the test; those of the contract suite run on the store in memory."""
    if file.startswith("store_contract/"):
        return f"tests/contract/test_store.py::TestMemoryStore::{test}"
    return f"tests/{file}::{test}"


@pytest.mark.parametrize("bug", PROVED)
def test_the_test_of_every_bug_passes(bug: str, ended: Mapping[str, Counter[str]]) -> None:
    outcomes = ended[PROVED[bug][1]]
    assert outcomes["passed"]
    assert set(outcomes) == {"passed"}


def test_every_bug_has_its_test() -> None:
    assert not BUGS or set(PROVED) == {bug["id"] for bug in BUGS}
