"""bugs.jsonl: each bug of other systems and the tests that would find it here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from acceptance_table import each_test
from shared_data import SHARED

TESTS = Path(__file__).resolve().parents[1]
CONTRACT = TESTS.parent / "src" / "ragstone" / "testing" / "store_contract"
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
    "bug-39": ("unit/test_parse_pdf.py", "test_a_page_of_pictures_needs_ocr_and_says_so"),
    "bug-41": ("unit/test_parse_decode.py", "test_a_byte_order_mark_is_no_text"),
    "bug-42": ("unit/test_parse_decode.py", "test_text_is_read_in_the_encoding_it_was_written_in"),
    "bug-43": ("unit/test_parse_decode.py", "test_text_is_read_in_the_encoding_it_was_written_in"),
    "bug-44": ("store_contract/concurrency.py", "test_deleting_while_replacing_leaves_all_or_nothing"),
    "bug-47": ("store_contract/writing.py", "test_a_chunk_that_cannot_be_stored_leaves_everything_as_it_was"),
}

OPEN: Mapping[str, str] = {
    "bug-36": "uploads are not built yet",
    "bug-38": "uploads are not built yet; two paths with equal bytes are two documents",
    "bug-40": "downloads are not built yet",
    "bug-45": "jobs are not built yet",
    "bug-46": "jobs are not built yet",
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug["id"])
def test_every_bug_has_a_test_that_exists_or_a_reason(bug: dict[str, str]) -> None:
    name = bug["id"]
    if name in OPEN:
        assert OPEN[name]
        assert name not in PROVED
        return
    file, test = PROVED[name]
    path = CONTRACT / Path(file).name if file.startswith("store_contract/") else TESTS / file
    assert test in {name for name, _ in each_test(path)}


def test_no_bug_is_named_that_is_not_there() -> None:
    assert not BUGS or set(PROVED) | set(OPEN) == {bug["id"] for bug in BUGS}
