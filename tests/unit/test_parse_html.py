"""HTML to Markdown."""

from __future__ import annotations

import pytest

from making import blob
from ragstone.errors import NoText
from ragstone.parse.router import parse
from ragstone.types import Document


def page(body: str, head: str = "", name: str = "page.html") -> Document:
    return parse(blob(name, f"<!doctype html><html><head>{head}</head><body>{body}</body></html>"))


def test_headings_lists_tables_and_code_become_markdown() -> None:
    document = page(
        """<h1>手册 <a href="#x">#</a></h1><p>First
        paragraph with <b>bold</b> and <code>code</code>.<br>New line</p>
        <ul><li>one<li>two<ul><li>inner</li></ul></li></ul>
        <ol start="3"><li>three</li><li><p>four</p></li></ol>
        <h2>Code</h2><pre>    # no heading\n      x = 1\n</pre>
        <table><caption>Cities</caption><tr><th>City<th>People<tr><td>杭州<td>1 | 2</table>"""
    )
    assert document.text == (
        "# 手册\n\nFirst paragraph with bold and `code`.\nNew line\n\n"
        "- one\n- two\n  - inner\n3. three\n4. four\n\n"
        "## Code\n\n```\n# no heading\n  x = 1\n```\n\n"
        "Cities\n\n| City | People |\n| --- | --- |\n| 杭州 | 1 \\| 2 |"
    )
    assert [(span.path, document.text[span.start :][:4]) for span in document.headings] == [
        (("手册",), "# 手册"),
        (("手册", "Code"), "## C"),
    ]
    assert document.title == "手册"


def test_page_furniture_scripts_and_hidden_text_are_left_out() -> None:
    document = page(
        """<nav>Menu</nav><header><nav>More menu</nav></header><script>var a = "script"</script>
        <style>p {}</style><!-- comment --><p>Content stays.</p><div style="display: none">hidden</div>
        <p hidden>also hidden</p><div role="navigation">crumbs</div><noscript>turn it on</noscript>
        <form><p>Inside a form</p><button>Send</button></form><footer>Imprint</footer>"""
    )
    assert document.text == "Content stays.\n\nInside a form"


def test_the_marked_main_content_is_taken() -> None:
    text = "The article has several sentences. " * 5
    document = page(f"<div>Related: other things</div><main><header><h1>T</h1></header><p>{text}</p></main>")
    assert document.text == f"# T\n\n{text.strip()}"


def test_a_main_element_that_holds_little_is_not_all_there_is() -> None:
    text = "The article has several sentences. " * 5
    assert text.strip() in page(f"<main>loading</main><p>{text}</p>").text


def test_where_only_furniture_holds_text_the_whole_page_is_read() -> None:
    assert page("<footer><p>All rights reserved</p></footer>").text == "All rights reserved"


@pytest.mark.parametrize(
    ("title", "heading", "begins"),
    [
        ("Report", "Report", "# Report"),
        ("Report | Example Ltd", "Report", "# Report"),
        ("Yearly numbers", "Report", "Yearly numbers\n\n# Report"),
    ],
)
def test_the_page_title_is_text_where_the_heading_does_not_say_it(
    title: str, heading: str, begins: str
) -> None:
    document = page(f"<h1>{heading}</h1><p>text</p>", f"<title>{title}</title>")
    assert document.text == f"{begins}\n\ntext"
    (span,) = document.headings
    assert document.text[span.start : span.end] == f"# {heading}\n\ntext"


def test_author_and_description_are_metadata() -> None:
    head = '<title>T</title><meta name="author" content=" Li  Lei "><meta name="description" content="">'
    document = page("<p>text</p>", head)
    assert dict(document.metadata) == {"author": "Li Lei"}
    assert document.title == "T"


def test_cells_that_span_rows_stand_in_each() -> None:
    document = page(
        '<table><tr><th>A<th>B<th>C<tr><td rowspan="2">x<td colspan="9999999999">y'
        "<tr><td>z<td><table><tr><td>n1<td>n2</table></table>"
    )
    assert document.text == "| A | B | C |\n| --- | --- | --- |\n| x | y |  |\n| x | z | n1 n2 |"


def test_a_table_that_only_lays_out_the_page_is_no_table() -> None:
    document = page(
        "<table><tr><td><h1>Head</h1><p>text</p></td><td><table><tr><td>a<td>b</table></td></tr></table>"
    )
    assert document.text.startswith("# Head\n\ntext")


def test_entities_are_their_signs_and_hash_marks_in_text_are_no_headings() -> None:
    document = page("<p># A&amp;B &lt;tag&gt; &#20013;&nbsp;&copy;</p>")
    assert document.text == "# A&B <tag> 中 ©"
    assert document.headings == ()


def test_line_breaks_inside_chinese_text_leave_no_space() -> None:
    assert page("<p>数据库的\n  备份与恢复</p>").text == "数据库的备份与恢复"


def test_code_that_holds_fences_stays_whole() -> None:
    assert page("<pre>```\ncode\n```</pre>").text == "````\n```\ncode\n```\n````"


def test_xhtml_with_an_empty_title_is_not_swallowed() -> None:
    source = (
        '<?xml version="1.0"?><html><head><title/><script src="a.js"/></head><body><p>text</p></body></html>'
    )
    assert parse(blob("a.xhtml", source)).text == "text"


def test_deep_and_broken_pages_are_read() -> None:
    assert "deep" in page("<div>" * 20_000 + "deep").text
    assert page("<p>one<p>two</b></div><table><tr><td>three").text == "one\n\ntwo\n\n| three |\n| --- |"


def test_a_page_without_text_says_so() -> None:
    with pytest.raises(NoText):
        page("<script>1</script>", "<title>Only a title</title>")
