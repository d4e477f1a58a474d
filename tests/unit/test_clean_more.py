"""What pages add to a text, broken lines, HTML, filters and prefixes (A16 to A18)."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.clean import (
    chained,
    clean,
    drop_running_lines,
    enriched,
    file_name,
    html_to_text,
    join_lines,
    keep_if,
    prefixed,
)
from ragstone.types import Box, Chunk, Document, HeadingSpan, PageSpan

BODIES = [
    "The pump is new.",
    "It makes a noise.",
    "Nobody minds it.",
    "It runs by night.",
    "By day it rests.",
    "So do we all.",
]


def paged(*texts: str) -> Document:
    """A document of these pages, a box over each."""
    pages: list[PageSpan] = []
    start = 0
    for number, text in enumerate(texts, 1):
        pages.append(PageSpan(number=number, start=start, end=start + len(text) + 2))
        start += len(text) + 2
    boxes = tuple(
        Box(page=page.number, start=page.start, end=page.end - 2, x0=0.0, y0=0.0, x1=1.0, y1=1.0)
        for page in pages
    )
    return Document(text="".join(f"{text}\n\n" for text in texts), pages=tuple(pages), boxes=boxes)


def shown(document: Document) -> list[str]:
    return [document.text[page.start : page.end].strip() for page in document.pages]


def test_a18_running_header_and_page_number_go_the_first_header_stays() -> None:
    document = paged(*(f"ACME Yearly Report\n\n{body}\n\n- {n} -" for n, body in enumerate(BODIES, 7)))
    cleaned = clean(document)
    assert shown(cleaned) == [f"ACME Yearly Report\n\n{BODIES[0]}", *BODIES[1:]]
    assert [cleaned.text[box.start : box.end].strip() for box in cleaned.boxes] == shown(cleaned)


def test_a18_chinese_page_numbers_and_left_and_right_headers_go() -> None:
    document = paged(
        *(
            f"{'年度报告' if n % 2 else '第三章 概况'}\n\n{body}\n\n第 {n} 页 共 6 页"
            for n, body in enumerate(BODIES, 1)
        )
    )
    cleaned = shown(clean(document))
    assert cleaned == [f"年度报告\n\n{BODIES[0]}", f"第三章 概况\n\n{BODIES[1]}", *BODIES[2:]]


def test_a18_a_number_set_apart_from_its_header_goes_with_it() -> None:
    document = paged(*(f"{body}\n\nACME Report | {n}" for n, body in enumerate(BODIES, 1)))
    assert shown(clean(document)) == [f"{BODIES[0]}\n\nACME Report | 1", *BODIES[1:]]


def test_a18_what_may_be_the_text_itself_stays() -> None:
    for texts in (
        [f"第 {n} 章\n\n{body}" for n, body in enumerate(BODIES, 1)],
        [f"# Question {n}\n\n{body}" for n, body in enumerate(BODIES, 1)],
        [f"{body}\n\nTotal: {n}" for n, body in enumerate(BODIES, 1)],
        [f"| Item | Price |\n| --- | --- |\n| {body} | 1 |" for body in BODIES],
        ["The same on every page."] * 5,
        ["Hello", "Hello\n\nmore"],
        [f"{body}\n\n{n * 3}" for n, body in enumerate(BODIES, 1)],
    ):
        document = paged(*texts)
        assert drop_running_lines(document).text == document.text


LINES = st.lists(st.sampled_from(["head", "7", "body one", "body two", "| a |", "", "Page 1"]), max_size=6)


@settings(deadline=None, max_examples=150)
@given(st.lists(LINES, max_size=6))
def test_a18_no_word_is_lost_and_spans_stay_in_order(pages: list[list[str]]) -> None:
    document = paged(*("\n".join(lines) for lines in pages))
    cleaned = drop_running_lines(document)
    words = {word for word in document.text.split() if word.isalpha() and word != "Page"}
    assert words <= set(cleaned.text.split())
    assert all(0 <= page.start <= page.end <= len(cleaned.text) for page in cleaned.pages)
    assert all(bool(cleaned.text[page.start : page.end].strip()) for page in cleaned.pages) or not all(
        document.text[page.start : page.end].strip() for page in document.pages
    )


def joined(text: str) -> str:
    return join_lines(Document(text=text)).text


def test_a18_words_divided_at_a_line_end_are_joined() -> None:
    assert joined("an impor-\ntant matter") == "an important matter"
    assert joined("soft\u00ad\nware and hard\u00adware") == "software and hardware"
    # Written with its hyphen elsewhere, it keeps it; names, numbers and lists keep theirs.
    assert joined("a well-\nknown, well-known man") == "a well-known, well-known man"
    for text in ("Jean-\nPaul", "pages 3-\n4", "- \nitem", "a -\nb", "x-\ny"):
        assert joined(text) == text
    assert joined("```\nfoo-\nbar baz-\nqux\n```") == "```\nfoo-\nbar baz-\nqux\n```"


def test_a18_chinese_lines_of_one_width_are_joined_others_stay() -> None:
    line = "水泵在夜间运行时会发出轻微的声音但是这并不影响正常使"
    assert joined(f"{line}\n用。请放心。") == f"{line}用。请放心。"
    for text in (
        "床前明月光\n疑是地上霜",
        f"{line}。\n第二句。",
        f"{line}\n- 项目",
        f"# {line}\n正文",
        f"{line}\nEnglish",
    ):
        assert joined(text) == text


def test_a18_spans_follow_joined_lines() -> None:
    text = "an impor-\ntant matter. Next part."
    start = text.index("Next")
    document = Document(text=text, headings=(HeadingSpan(path=("N",), start=start, end=len(text)),))
    (span,) = join_lines(document).headings
    assert join_lines(document).text[span.start : span.end] == "Next part."


def test_a18_many_hyphens_take_one_pass() -> None:
    clock = time.process_time()
    assert "-\n" not in joined("impor-\ntant " * 40_000)
    assert time.process_time() - clock < 20  # quadratic it would be hours


def test_a16_html_becomes_text_with_spans_and_what_is_no_tag_stays() -> None:
    text = (
        "<p>The &eacute;lan of <b>a &lt; b</b></p><script>x('<p>')</script><!-- no -->"
        "<ul><li>one<li>two</ul>List<String> a < b &amp; c"
    )
    start = text.index("List")
    document = Document(text=text, headings=(HeadingSpan(path=("L",), start=start, end=len(text)),))
    cleaned = html_to_text(document)
    assert [line for line in cleaned.text.split("\n") if line] == [
        "The élan of a < b",
        "one",
        "two",
        "List<String> a < b & c",
    ]
    (span,) = cleaned.headings
    assert cleaned.text[span.start : span.end] == "List<String> a < b & c"
    assert html_to_text(Document(text="<p " * 50_000 + "&#xD800;&#0;")).text.endswith("\ufffd\ufffd")


def test_a16_documents_are_filtered_and_enriched() -> None:
    prepare = chained(
        keep_if(lambda document: "draft" not in document.title),
        enriched(file_name),
        enriched({"year": 2020, "source": "ours"}),
    )
    assert prepare(Document(text="a", title="a draft")) is None
    kept = prepare(Document(text="a", uri="file:///x/%E6%89%8B%E5%86%8C.pdf", metadata={"source": "theirs"}))
    assert kept is not None
    assert kept.metadata == {"file_name": "手册.pdf", "year": 2020, "source": "theirs"}
    assert enriched(file_name)(Document(text="a")) == Document(text="a")


def test_a17_a_chunk_gets_names_in_front_of_its_context_never_in_its_text() -> None:
    chunk = Chunk(
        text="a",
        document_id="d",
        index=0,
        start=0,
        end=1,
        context="Pump",
        metadata={"file_name": "m.pdf", "n": 3},
    )
    named = prefixed("file_name", "missing", "n")(chunk)
    assert named is not None
    assert (named.text, named.context) == ("a", "m.pdf > 3\nPump")
    assert prefixed("missing")(chunk) == chunk
    long = prefixed("file_name", limit=3)(chunk)
    assert long is not None
    assert long.context == "m.p\nPump"
