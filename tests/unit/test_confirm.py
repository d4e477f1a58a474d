"""Short questions: which term they are, and where a term stands (A56, W13)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.confirm import MAX_WORD, confirmed, core_term, effective, holds
from ragstone.trace import Trace
from ragstone.types import Chunk, Hit, Query

pytestmark = pytest.mark.anyio


def hit(text: str, *, title: str = "t", context: str = "") -> Hit:
    chunk = Chunk(text=text, document_id="d", index=0, start=0, end=len(text), context=context)
    return Hit(chunk=chunk, uri="u", title=title)


@pytest.mark.parametrize(
    ("question", "term"),
    [
        ("Redis", "Redis"),
        ("C++", "C++"),
        ("What's C#?", "C#"),
        (".NET是什么？", ".NET"),
        ("node.js", "node.js"),
        ("AB-1203/7", "AB-1203/7"),
        ("What is Redis?", "Redis"),
        ("“年假”", "年假"),
        ("什么是索引？", "索引"),
        ("请问年假是什么意思", "年假"),
        ("怎么报销", "报销"),
        ("如何请假", "请假"),
        ("搜索引擎", "搜索引擎"),
        ("說明書", "說明書"),
        ("猫", "猫"),
        ("C", "C"),
    ],
)
def test_w13_a_term_is_read_from_the_words_that_only_ask(question: str, term: str) -> None:
    assert core_term(question) == term


@pytest.mark.parametrize(
    "question",
    [
        "年假有几天",
        "索引怎么建",
        "它怎么配置？",
        "试用期可以请假吗",
        "知识库的权限",
        "加班费怎么算",
        "数据库索引优化",
        "Spring Boot",
        "Go 语言",
        "How do I install it?",
        "How often?",
        "什么",
        "？！",
        "x" * (MAX_WORD + 1),
    ],
)
def test_w13_a_phrase_or_sentence_is_no_term(question: str) -> None:
    assert core_term(question) is None


@pytest.mark.parametrize(
    ("text", "term", "found"),
    [
        ("Everything is good.", "go", False),
        ("Go is a language.", "go", True),
        ("The indexes were built.", "index", True),
        ("C++ runs fast.", "C++", True),
        ("C runs fast.", "C++", False),
        ("C++ and C# only.", "C", False),
        ("C and C++.", "C", True),
        ("Made with .NET 8.", ".net", True),
        ("See example.net for more.", ".NET", False),
        ("Part AB-1203/7 is spare.", "ab-1203/7", True),
        ("先建立索引再查询", "索引", True),
        ("索 引", "索引", False),
        ("資料庫建立索引", "资料库", True),
        ("一只猫咪", "猫", True),
        ("报销的流程如下", "报销流程", True),
        ("流程很长，报销很慢", "报销流程", True),
        ("报销要快", "报销流程", False),
        ("知识产权与书库", "知识库", False),
        ("nothing at all", "the", True),
        ("", "go", False),
    ],
)
def test_w13_a_term_stands_in_a_text_as_a_word(text: str, term: str, found: bool) -> None:
    assert holds(text, term) is found


@pytest.mark.parametrize(
    ("question", "texts", "answer"),
    [
        ("go", ["All is good."], False),
        ("go", ["All is good.", "Go on."], True),
        ("年假有几天", ["试用期为三个月。"], True),
        ("年假", ["试用期为三个月。"], False),
        ("What is the trial period?", [], False),
    ],
)
def test_a56_a_term_must_stand_in_a_hit_and_other_questions_need_any(
    question: str, texts: list[str], answer: bool
) -> None:
    assert effective(Query(question), [hit(text) for text in texts]) is answer


def test_a56_title_and_headings_of_a_passage_count() -> None:
    assert effective(Query("Redis"), [hit("It keeps data in memory.", title="Redis")])
    assert effective(Query("Redis"), [hit("It keeps data in memory.", context="Stores > Redis")])


async def test_a56_the_selector_keeps_all_or_nothing_and_says_which_term_was_missed() -> None:
    hits, trace = [hit("All is good."), hit("Go on.")], Trace()
    assert await confirmed(Query("go"), hits) == hits
    with trace.stage("select") as detail:
        assert await confirmed(Query("go"), hits[:1]) == []
    assert detail == {"unconfirmed": "go"}
    assert await confirmed(Query("go"), []) == []


@given(st.text(max_size=60), st.text(max_size=60))
@settings(deadline=None)
def test_w13_any_question_and_text_are_read_and_a_term_stands_in_itself(question: str, text: str) -> None:
    term = core_term(question) if question.strip() else None
    if term is not None:
        assert holds(term, term)
        assert holds(f"{text} {term} {text}", term)
