"""JSON, XML, FB2 and plain markup: awkward ones of every kind, through the router."""

from __future__ import annotations

import json

import pytest

from making import blob
from ragstone.errors import CorruptContent, NoText
from ragstone.parse.router import parse


def text_of(name: str, data: bytes | str) -> str:
    return parse(blob(name, data)).text


def paths_of(name: str, text: str) -> list[tuple[tuple[str, ...], str]]:
    document = parse(blob(name, text))
    return [(span.path, document.text[span.start : span.end].split("\n")[0]) for span in document.headings]


# --- JSON --------------------------------------------------------------------------


def test_each_block_names_the_path_to_it() -> None:
    data = {
        "店": {"名": "一号", "货": [{"名": "锹", "价": 3, "规格": {"长": 1.5}}, {"名": "耙", "价": 4}]},
        "v": True,
    }
    assert text_of("a.json", json.dumps(data)) == (
        "v: true\n\n店\n名: 一号\n\n店 > 货 > 1\n名: 锹\n价: 3\n\n店 > 货 > 1 > 规格\n长: 1.5\n\n"
        "店 > 货 > 2\n名: 耙\n价: 4"
    )


def test_alike_records_are_a_table() -> None:
    data = '[{"name":"a|b","n":1},{"name":"c","n":null},{"n":3,"name":"d"}]'
    assert text_of("a.json", data) == "| name | n |\n| --- | --- |\n| a\\|b | 1 |\n| c |  |\n| d | 3 |"


def test_numbers_stay_as_written_and_no_key_is_lost() -> None:
    data = '{"a":1e400,"b":NaN,"c":-Infinity,"d":12345678901234567890123,"e":1.10,"k":1,"k":2,"n":null}'
    assert text_of("a.json", data) == (
        "a: 1e400\nb: NaN\nc: -Infinity\nd: 12345678901234567890123\ne: 1.10\nk: 1\nk: 2"
    )


def test_an_integer_of_many_digits() -> None:
    assert len(text_of("a.json", '{"a": ' + "9" * 20_000 + "}")) == 20_003


def test_surrogates_and_control_characters_in_strings() -> None:
    text = text_of("a.json", r'{"a": "\ud83d\ude00 \u0000\u200b\ud800", "b\u0007": "x"}')
    text.encode("utf-8")
    assert "😀" in text
    assert "\x00" not in text
    assert "b: x" in text


@pytest.mark.parametrize(
    "data", ["[" * 100_000, '{"a":' * 50_000, "[" * 900 + "1" + "]" * 900, '{"user": "x", "mail']
)
def test_what_is_no_json_or_nests_too_deeply_stays_text(data: str) -> None:
    assert text_of("a.json", data) == data


def test_json_is_found_by_content() -> None:
    assert text_of("config", '{"host": "db", "port": 5432}') == "host: db\nport: 5432"


def test_notes_in_brackets_are_no_json() -> None:
    assert text_of("a.txt", "[1] See below\n[2] See above") == "[1] See below\n[2] See above"


def test_json_lines_with_a_broken_line() -> None:
    data = '{"q":"一","a":"甲"}\n{"q":"二","a":\n\n{"q":"三","a":"丙"}\n'
    document = parse(blob("a.jsonl", data))
    assert document.text == '| q | a |\n| --- | --- |\n| 一 | 甲 |\n| 三 | 丙 |\n\n{"q":"二","a":'
    assert "1" in document.warnings[0].text("en")


def test_empty_json_is_no_text() -> None:
    with pytest.raises(NoText):
        text_of("a.json", "{}")


def test_a_notebook_reads_as_prose_and_code() -> None:
    notebook = {
        "nbformat": 4,
        "cells": [
            {"cell_type": "markdown", "source": ["# 分析\n", "正文"]},
            {
                "cell_type": "code",
                "source": "print(1)",
                "outputs": [{"text": ["1\n"]}, {"data": {"image/png": "iVBO"}}],
            },
        ],
    }
    document = parse(blob("a.ipynb", json.dumps(notebook)))
    assert document.title == "分析"
    assert document.text.startswith("# 分析\n正文\n\n```\nprint(1)\n```\n\n```\n1")
    assert "iVBO" not in document.text


# --- XML ---------------------------------------------------------------------------


def test_elements_attributes_namespaces_and_cdata() -> None:
    data = (
        '<?xml version="1.0"?><c:shop xmlns:c="urn:x" name="店"><c:item id="1"><c:n>锹</c:n><c:d>'
        "<![CDATA[a < b]]></c:d>"
        "</c:item><c:item id='2'><c:n>耙</c:n><c:d>x &amp; y</c:d></c:item></c:shop>"
    )
    assert text_of("a.xml", data) == (
        "shop\nname: 店\n\nshop > item\n\n| id | n | d |\n| --- | --- | --- |\n| 1 | 锹 | a < b |\n"
        "| 2 | 耙 | x & y |"
    )


def test_mixed_text_stays_together_and_in_order() -> None:
    data = "<doc><title>T</title><p>Mit <b>fett</b>em Wort<note>n</note>.</p><p>Zwei</p></doc>"
    assert text_of("a.xml", data) == "doc\ntitle: T\n\ndoc > p\n- Mit fettem Wortn.\n- Zwei"


def test_html_inside_a_feed_is_text() -> None:
    data = (
        "<rss><item><description>&lt;p&gt;Hallo &lt;b&gt;Welt&lt;/b&gt;&lt;/p&gt;</description></item></rss>"
    )
    assert text_of("a.rss", data) == "rss > item\ndescription: Hallo Welt"


def test_gbk_xml_by_its_declaration() -> None:
    data = '<?xml version="1.0" encoding="GBK"?><a><b>中文内容</b></a>'.encode("gbk")
    assert text_of("a.xml", data) == "a\nb: 中文内容"


BOMB = "<!DOCTYPE a [<!ENTITY x0 'lol'>" + "".join(
    f"<!ENTITY x{n} '{f'&x{n - 1};' * 10}'>" for n in range(1, 10)
)


@pytest.mark.parametrize(
    "data",
    [
        f"{BOMB}]><a><b>before</b><c>&x9;</c></a>",
        f"{BOMB}]><a><b>before</b><c d='&x9;'/></a>",
        "<!DOCTYPE a [<!ENTITY f SYSTEM 'file:///etc/passwd'>]><a><b>before</b><c>&f;</c></a>",
        "<!DOCTYPE a SYSTEM 'http://127.0.0.1:9/x.dtd'><a><b>before</b><c>&f;</c></a>",
        "<!DOCTYPE a [<!ENTITY % p SYSTEM 'http://127.0.0.1:9/x'> %p;]><a><b>before</b></a>",
    ],
)
def test_entities_neither_grow_nor_fetch(data: str) -> None:
    text = text_of("a.xml", data)
    assert "before" in text
    assert "root:" not in text
    assert len(text) < len(data) + 100


def test_short_entities_and_names_of_html_are_written_out() -> None:
    data = "<!DOCTYPE a [<!ENTITY co 'Stein GmbH'>]><a><b>&co; &auml;</b></a>"
    assert text_of("a.xml", data) == "a\nb: Stein GmbH ä"


def test_deep_xml_loses_no_text() -> None:
    depth = 5_000
    text = text_of("a.xml", "<a>" * depth + "kern" + "</a>" * depth)
    assert text.endswith("kern")


def test_xml_that_is_cut_off_stays_text_with_a_remark() -> None:
    document = parse(blob("a.xml", "<a><b>inhalt</b><c>"))
    assert "inhalt" in document.text
    assert document.warnings[0].key == "parse.xml_broken"


def test_code_with_tags_stays_code() -> None:
    assert text_of("a.vue", "<template><p>{{ x }}</p></template>") == "<template><p>{{ x }}</p></template>"


def test_text_that_begins_with_an_angle_stays_text() -> None:
    assert text_of("a.txt", "<user> hi\n<other> hello & bye") == "<user> hi\n<other> hello & bye"


# --- FB2 ---------------------------------------------------------------------------


def test_fb2_has_chapters_as_headings_in_its_encoding() -> None:
    body = (
        '<?xml version="1.0" encoding="windows-1251"?><FictionBook xmlns="http://www.gribuser.ru/xml/fictionbook/2.0">'
        "<description><title-info><author><first-name>Лев</first-name><last-name>Толстой</last-name></author>"
        "<book-title>Война и мир</book-title></title-info></description><body><title><p>Том</p><p>"
        "первый</p></title>"
        "<section><title><p>Глава 1</p></title><p>Ну, <emphasis>князь</emphasis>.</p><empty-line/>"
        "<poem><stanza><v>Раз</v><v>два</v></stanza></poem></section></body><binary>AAAA</binary></FictionBook>"
    )
    document = parse(blob("a.fb2", body.encode("cp1251")))
    assert (document.title, document.metadata["author"]) == ("Война и мир", "Лев Толстой")
    assert document.text == "# Том первый\n\n## Глава 1\n\nНу, князь.\n\nРаз\nдва"
    with pytest.raises(CorruptContent):
        parse(blob("a.fb2", body.encode("cp1251")[:-60]))


# --- AsciiDoc, reStructuredText, LaTeX -----------------------------------------------


def test_asciidoc_headings_outside_listings() -> None:
    text = "= 手册\n\n== 安装\n\n----\n== kein Titel\n----\n\n=== 步骤\n\ntext\n"
    assert paths_of("a.adoc", text) == [
        (("手册",), "= 手册"),
        (("手册", "安装"), "== 安装"),
        (("手册", "安装", "步骤"), "=== 步骤"),
    ]


def test_rst_levels_follow_the_order_of_their_signs() -> None:
    text = (
        "=====\nTitel\n=====\n\nEins\n====\n\nZwei\n----\n\n====  ====\na     b\n====  ====\n\nDrei\n====\n"
    )
    assert [path for path, _ in paths_of("a.rst", text)] == [
        ("Titel",),
        ("Titel", "Eins"),
        ("Titel", "Eins", "Zwei"),
        ("Titel", "Drei"),
    ]


def test_latex_sections_without_their_commands() -> None:
    text = (
        "\\title{Ein \\emph{Bericht}}\n\\section[kurz]{Lage \\& Ziel \\label{x}}\na\n\\subsection*{Mehr}\nb\n"
    )
    document = parse(blob("a.tex", text))
    assert document.title == "Ein Bericht"
    assert [span.path for span in document.headings] == [("Lage & Ziel",), ("Lage & Ziel", "Mehr")]


@pytest.mark.parametrize("name", ["a.yaml", "a.toml", "a.ini", "a.py"])
def test_other_text_with_keys_stays_as_it_is(name: str) -> None:
    text = "server:\n  host: db, cache, web\n  port: 1"
    assert text_of(name, text) == text
