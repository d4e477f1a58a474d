"""Citation markers, their support, and the audit."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragstone.audit import Evidence, missing_facts
from ragstone.cite import StreamCiter, cite, repair, without_markers
from ragstone.types import Chunk, Hit

DOCUMENT = "Preface. Annual leave is five days. It rises to 1,200 hours.\n\nSick leave needs a\ncertificate."


def hit(text: str, document: str = "") -> Hit:
    start = document.find(text) if document else 0
    chunk = Chunk(text=text, document_id="d", index=0, start=start, end=start + len(text), page=3)
    return Hit(chunk=chunk, uri="file:///d.txt", title="Rules")


def repaired(text: str, count: int = 3) -> str:
    return "".join(repair([text], count))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Blue [1].", "Blue [1]."),
        ("Blue [1, 2] and [1-3]", "Blue [1][2] and [1][2][3]"),
        ("蓝【1】【2】。绿［３］、红【１，２】。", "蓝[1][2]。绿[3]、红[1][2]。"),
        ("Twice [1] [1]", "Twice [1]"),
        ("Double [[2]]", "Double [2]"),
        ("Unknown [9]. Next", "Unknown. Next"),
        ("Unknown [9] within", "Unknown within"),
        ("Unknown[9]glued", "Unknown glued"),
        ("未知【9】字", "未知字"),
        ("Half [1][9].", "Half [1]."),
        ("Half [9][1] more", "Half [1] more"),
        ("Half [2-8]", "Half [2][3]"),
        ("[9] begins", "begins"),
        ("- item [9]\n- item [1]", "- item\n- item [1]"),
        ("zero [0].", "zero."),
        ("interval [0, 1]", "interval [0, 1]"),
        ("year [2024]", "year [2024]"),
        ("`a[9]` and ``b`[9]``", "`a[9]` and ``b`[9]``"),
        ("```\na[9]\n```\nafter [9].", "```\na[9]\n```\nafter."),
        ("a lone ` tick [1]\nnext [9].", "a lone ` tick [1]\nnext."),
        ("[text](https://a/b) [1](u) ![9](u)", "[text](https://a/b) [1](u) ![9](u)"),
        ("open [1", "open [1"),
        ("open [", "open ["),
    ],
)
def test_d6_c38_markers_are_read_and_unknown_ones_removed(text: str, expected: str):
    assert repaired(text) == expected
    assert repaired(expected) == expected


PIECES = st.lists(
    st.sampled_from([*"[]【】［］()1239０,-、 \n`.。a字", "[1]", " [9]", "```", "[1, 2]", "[1](u)"]),
    max_size=25,
)


@settings(deadline=None, max_examples=400)
@given(PIECES, st.data())
@example(["a", " ", "[", "9", "]", " ", "b"], None)
def test_d6_the_cut_of_the_stream_changes_nothing(pieces: list[str], data: st.DataObject | None):
    text = "".join(pieces)
    whole = StreamCiter(2)
    expected = whole.feed(text) + whole.finish()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6))) if data else []
    for parts in ([text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)], list(text)):
        cut = StreamCiter(2)
        shown = "".join([*map(cut.feed, parts), cut.finish()])
        assert shown == expected == cut.text
        assert (cut.plain, cut.marks, cut.removed) == (whole.plain, whole.marks, whole.removed)


def test_what_is_known_is_shown_at_once():
    citer = StreamCiter(1)
    assert citer.feed("The sky is ") == "The sky is"
    assert citer.feed("blue") == " blue"
    assert citer.feed(" [9") == ""
    assert citer.feed("] today") == " today"


def test_a81_c38_a_sentence_that_stands_in_its_passage_is_quoted_where_it_stands():
    passage = hit("Sick leave needs a\ncertificate.", DOCUMENT)
    cited = cite("Sick leave needs a certificate [1].", [passage])
    (citation,) = cited.citations
    assert citation.quote == DOCUMENT[citation.start : citation.end] == "Sick leave needs a\ncertificate."
    assert (citation.n, citation.page, citation.document_id) == (1, 3, "d")


def test_a_reworded_sentence_quotes_the_one_that_shares_most_of_its_rare_terms():
    passage = hit("Annual leave is five days. It rises to 1,200 hours.", DOCUMENT)
    cited = cite("In hours it is 1200 at most [1].\nThe leave of a year has five days [1].", [passage])
    quotes = [citation.quote for citation in cited.citations]
    assert quotes == ["It rises to 1,200 hours.", "Annual leave is five days."]
    assert all(DOCUMENT[one.start : one.end] == one.quote for one in cited.citations)


def test_a_passage_in_another_language_is_quoted_whole():
    cited = cite("病假需要证明。[1]", [hit("  Sick leave needs a certificate. ")])
    assert cited.citations[0].quote == "Sick leave needs a certificate."


def test_markers_belong_to_the_sentence_before_them_or_begin_a_line():
    passages = [hit("Cats purr."), hit("Dogs bark.")]
    expected = [(1, "Cats purr."), (2, "Dogs bark.")]
    for text in (
        "Cats purr [1]. Dogs bark [2].",
        "Cats purr. [1] Dogs bark. [2]",
        "Cats purr.[1] Dogs bark.[2]",
        "[1] Cats purr.\n[2] Dogs bark.",
        "- Cats purr. [1]\n- Dogs bark. [2]",
    ):
        assert [(one.n, one.quote) for one in cite(text, passages).citations] == expected, text


def test_the_same_quote_is_one_citation_and_two_passages_are_two():
    passages = [hit("Cats purr. Dogs bark."), hit("Cats purr.")]
    cited = cite("Cats purr [1][2]. Again: cats purr [1].", passages)
    assert [one.n for one in cited.citations] == [1, 2]


def test_footnote_numbers_of_a_document_do_not_hide_a_quotation():
    passage = hit("Yes. Water boils at 100 degrees[3] by the sea, and at fewer degrees above.")
    cited = cite("Water boils at 100 degrees by the sea [1].", [passage])
    assert cited.citations[0].quote == "Water boils at 100 degrees[3] by the sea"


def test_d6_c39_the_audit_counts_sentences_and_names_what_is_not_there():
    passages = [hit("The fee was raised to 1,200 yuan in March 2015 for GPT-4.")]
    cited = cite(
        "In 2015 the fee was 1200 yuan [1]. The fee is 900 [1]. Nothing is cited here. Gone [7].", passages
    )
    assert cited.audit == {
        "sentences": 4,
        "cited": 2,
        "unsupported": [{"sentence": "The fee is 900.", "missing": ["900"]}],
        "removed_markers": [7],
    }
    assert "[7]" not in cited.text


def test_an_answer_without_markers_has_no_citations():
    cited = cite("Nothing is cited.", [hit("Nothing is cited.")])
    assert cited.citations == ()
    assert cited.text == "Nothing is cited."


def test_no_text_and_no_passages():
    assert cite("", []).text == ""
    assert cite("a [1]", []).audit["removed_markers"] == [1]


@settings(deadline=None)
@given(PIECES)
def test_quotes_are_slices_and_markers_are_known(pieces: list[str]):
    passages = [hit("Annual leave is five days.", DOCUMENT), hit("certificate.", DOCUMENT)]
    cited = cite("".join(pieces), passages)
    for citation in cited.citations:
        assert citation.quote == DOCUMENT[citation.start : citation.end]
        assert f"[{citation.n}]" in cited.text
    assert cited.audit["cited"] <= cited.audit["sentences"]


@pytest.mark.parametrize(
    ("sentence", "passage", "missing"),
    [
        ("It costs 1200.50.", "it costs 1,200.5 in all", []),
        ("试用期为 3 个月。", "试用期为三个月", []),
        ("共 35000 元，占 12%。", "三万五千元，百分之十二", []),
        ("On 2015-03-02 it began.", "它始于二〇一五年三月2日", []),
        ("It began on 2 March.", "It began on the second of march", []),
        ("Twelve is written 12.", "twelve", []),
        ("It took 25 days.", "it took twenty-five days", []),
        ("It costs 13.", "it costs 12", ["13"]),
        ("Use ERR_104 in v2.1", "err_104 and v2.2", ["v2.1"]),
        ("He said “not now”.", "he said Not\nNow", []),
        ("他说「不去」和「去」。", "他说去", ["不去"]),
        ("1. The first of 1.", "one", []),
        ("2) Pay 7", "pay", ["7"]),
        ("全角１２３", "123", []),
        ("0 errors", "no errors", ["0"]),
    ],
)
def test_d6_c39_facts_are_found_whatever_their_spelling(sentence: str, passage: str, missing: list[str]):
    assert missing_facts(sentence, [Evidence(passage)]) == missing


@settings(deadline=None)
@given(st.text(), st.text())
def test_the_audit_reads_any_text(sentence: str, passage: str):
    assert missing_facts(sentence, [Evidence(passage), Evidence(sentence)]) == []


def test_a_documents_own_markers_are_dropped_from_a_quotation():
    assert without_markers("Boils at 100 degrees.[3] Or [12], so.") == "Boils at 100 degrees. Or, so."
    assert re.search(r"\[\d", without_markers("年【3】月[4][5]")) is None
