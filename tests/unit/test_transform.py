"""Transformers: what the model is asked, and what becomes of what it says."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from provider import WAIT, Fault, Provider
from ragstone.chat.openai import OpenAIChatModel
from ragstone.errors import InvalidQuery, InvalidStage, ProviderUnavailable
from ragstone.expand import Decompose, MultiQuery
from ragstone.protocols import ChatModel, Transformer
from ragstone.testing.chat import FakeChatModel
from ragstone.trace import Trace
from ragstone.transform import STANDALONE, Compress, HyDE, PreviousTurn, Rewrite, StepBack, Translate
from ragstone.types import Message, Query, Usage

pytestmark = pytest.mark.anyio

TALK = (
    Message(role="system", content="Be brief."),
    Message(role="user", content="Which pump is in hall 3?"),
    Message(role="assistant", content="<think>look</think>The P-200 [1]."),
)
MAKERS: list[tuple[str, Callable[[ChatModel], Transformer]]] = [
    ("rewrite", Rewrite),
    ("compress", Compress),
    ("translate", lambda chat: Translate(chat, "English")),
    ("step_back", StepBack),
    ("hyde", HyDE),
]
BROKEN = ProviderUnavailable("chat.connection", url="x")


def asked(chat: FakeChatModel) -> str:
    return "\n".join(message.content for message in chat.requests[0])


@pytest.mark.parametrize(("name", "make"), MAKERS)
async def test_a36_a37_a40_the_text_changes_and_all_else_stays(
    name: str, make: Callable[[ChatModel], Transformer]
) -> None:
    query = Query("它怎么保养？", history=TALK, context={"user": 7})
    changed = await make(FakeChatModel("P-200 水泵怎么保养？"))(query)
    assert changed.text == "P-200 水泵怎么保养？"
    assert (changed.history, changed.context["user"], changed.scope) == (TALK, 7, query.scope)


@pytest.mark.parametrize(("name", "make"), MAKERS)
@pytest.mark.parametrize(
    "answer", ["", "  \n", "<think>never ends", BROKEN, TimeoutError(), ConnectionResetError()]
)
async def test_a41_w12_a_failure_leaves_the_question_and_is_marked(
    name: str, make: Callable[[ChatModel], Transformer], answer: str | Exception
) -> None:
    query, trace = Query("How is it serviced?", history=TALK), Trace()
    with trace.stage("transform") as detail:
        assert await make(FakeChatModel(answer))(query) is query
    assert trace.degraded == [f"{name}_failed"]
    assert f"{name}_failed" in detail


@pytest.mark.parametrize(
    "said", ["<think>it may be a fan</think>P-200 upkeep", "it may be a fan</think>\n\nP-200 upkeep"]
)
async def test_bug_30_reasoning_is_neither_searched_with_nor_fed_back(said: str) -> None:
    for stage in (Rewrite, Compress, StepBack, HyDE):
        chat = FakeChatModel(said)
        assert (await stage(chat)(Query("How is it serviced?", history=TALK))).text == "P-200 upkeep"
        assert "<think>" not in asked(chat)
    assert [query.text for query in await MultiQuery(FakeChatModel(said))(Query("a"))] == [
        "a",
        "P-200 upkeep",
    ]


async def test_a_late_model_leaves_the_question() -> None:
    async with Provider() as provider:
        provider.fail(Fault(hold=True))
        chat = OpenAIChatModel(base_url=f"{provider.url}/v1", model="m", timeout=WAIT)
        query, trace = Query("How is it serviced?"), Trace()
        with anyio.fail_after(WAIT), trace.stage("transform"):
            assert await Rewrite(chat, seconds=0.05)(query) is query
        await provider.until(lambda provider: provider.active == 0)
        await chat.aclose()
    assert trace.degraded == ["rewrite_failed"]


async def test_a_model_that_repeats_the_question_changes_nothing() -> None:
    query = Query("How is the pump serviced?")
    assert await Rewrite(FakeChatModel("how is the pump  serviced"))(query) is query
    assert await Translate(FakeChatModel("How is the pump serviced?"), "English")(query) is query


async def test_a35_compress_reads_user_and_assistant_only() -> None:
    chat = FakeChatModel("How is the P-200 serviced?")
    changed = await Compress(chat)(Query("How is it serviced?", history=TALK))
    assert "user: Which pump is in hall 3?\nassistant: The P-200 [1]." in asked(chat)
    assert "Be brief" not in asked(chat)
    assert "<think>" not in asked(chat)
    assert changed.context[STANDALONE] == "How is the P-200 serviced?"


@pytest.mark.parametrize("history", [(), TALK[:1], (Message(role="user", content=" "),)])
async def test_w27_without_history_the_model_is_not_asked(history: tuple[Message, ...]) -> None:
    chat = FakeChatModel("never")
    query = Query("How is it serviced?", history=history)
    assert await Compress(chat)(query) is query
    assert chat.requests == []


async def test_w27_a_long_history_keeps_its_end() -> None:
    chat = FakeChatModel("x y")
    history = tuple(Message(role="user", content=f"turn {n} " + "word " * 40) for n in range(50))
    await Compress(chat, history_tokens=100)(Query("And then?", history=history))
    assert "turn 49" in asked(chat)
    assert "turn 47" not in asked(chat)
    chat = FakeChatModel("x y")
    await Compress(chat, history_tokens=5)(Query("And then?", history=history))
    assert "user: turn 49 word word" in asked(chat)
    assert len(asked(chat)) < 900


async def test_c34_without_a_model_one_question_before_stands_in_front_within_a_limit() -> None:
    stage = PreviousTurn(max_tokens=4)
    assert (await stage(Query("a?"))).text == "a?"
    said = (
        Message(role="user", content="What is the long-winded oldest question?"),
        Message(role="user", content="泵如何维护保养"),
        Message(role="assistant", content="No questions here."),
        Message(role="user", content=" "),
    )
    joined = await stage(Query("And then?", history=said))
    assert joined.text == joined.context[STANDALONE] == "泵如何维\nAnd then?"
    assert joined.history == said
    compressed = Query("And then?", history=said, context={STANDALONE: "What then?"})
    assert await stage(compressed) is compressed
    with pytest.raises(InvalidStage):
        PreviousTurn(max_tokens=0)


async def test_hyde_searches_with_a_passage_of_bounded_length() -> None:
    changed = await HyDE(FakeChatModel("The pump is serviced.\nEvery year. " * 500))(Query("How often?"))
    assert changed.text.startswith("The pump is serviced.\nEvery year.")
    assert len(changed.text) <= 2_000


async def test_prompts_follow_the_question_s_language_and_can_be_replaced() -> None:
    chinese, english = FakeChatModel("x y"), FakeChatModel("x y")
    await Rewrite(chinese)(Query("水泵怎么保养？"))
    await Rewrite(english, target="keyword index")(Query("How is {it} serviced?"))
    assert "请改写" in asked(chinese)
    assert "vector store" in asked(chinese)
    assert "keyword index" in asked(english)
    assert "How is {it} serviced?" in asked(english)
    own = FakeChatModel("x y")
    await Rewrite(own, template="# system\nBe terse.\n# user\n{target}/{query}")(Query("q?"))
    assert [message.content for message in own.requests[0]] == ["Be terse.", "vector store/q?"]


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda chat: Rewrite(chat, template="{query}"), "target"),
        (lambda chat: Rewrite(chat, template="{target} {query} {stray}"), "stray"),
        (lambda chat: Compress(chat, template="{query}"), "history"),
        (lambda chat: Translate(chat, "English", template="{query}"), "language"),
        (lambda chat: StepBack(chat, template="no"), "query"),
        (lambda chat: HyDE(chat, template="no"), "query"),
        (lambda chat: MultiQuery(chat, template="{query}"), "number"),
        (lambda chat: Decompose(chat, template="{number}"), "query"),
        (lambda chat: Translate(chat, " "), "language"),
        (lambda chat: Rewrite(chat, target=""), "target"),
        (lambda chat: Compress(chat, history_tokens=0), "0"),
        (lambda chat: MultiQuery(chat, 0), "0"),
        (lambda chat: MultiQuery(chat, 21), "20"),
        (lambda chat: Decompose(chat, True), "True"),
    ],
)
def test_a10_a11_what_cannot_work_is_refused_when_built(
    make: Callable[[ChatModel], object], named: str
) -> None:
    with pytest.raises(InvalidStage, match=named):
        make(FakeChatModel("x"))


def test_a01_blank_questions_and_empty_items_of_history_are_refused() -> None:
    for text in ("", " \n\t", "\u3000"):
        with pytest.raises(InvalidQuery, match="blank"):
            Query(text)
    with pytest.raises(InvalidQuery, match="item 1 is None"):
        Query("a", history=(TALK[1], None))  # type: ignore[arg-type]


# --- expanders -----------------------------------------------------------------------


async def texts(expand: MultiQuery | Decompose, text: str = "How often is the pump serviced?") -> list[str]:
    return [query.text for query in await expand(Query(text, history=TALK))]


async def test_a39_c36_three_others_behind_the_original() -> None:
    chat = FakeChatModel("1. pump service interval\n2. P-200 upkeep\n3. when is the pump checked\n4. more")
    original = Query("How often is the pump serviced?", history=TALK, context={"a": 1})
    found = await MultiQuery(chat)(original)
    assert found[0] is original
    assert [q.text for q in found[1:]] == [
        "pump service interval",
        "P-200 upkeep",
        "when is the pump checked",
    ]
    assert all((q.history, q.context) == (TALK, {"a": 1}) for q in found)
    assert "3" in asked(chat)


async def test_w01_c36_a_variant_equal_to_the_original_or_to_another_is_dropped() -> None:
    said = "how often is the pump serviced\nUpkeep of the pump\nupkeep of the  pump?\nservice interval"
    assert await texts(MultiQuery(FakeChatModel(said))) == [
        "How often is the pump serviced?",
        "Upkeep of the pump",
        "service interval",
    ]
    said = "How often is the pump serviced?\none\ntwo\nthree\nfour"
    assert (await texts(MultiQuery(FakeChatModel(said))))[1:] == ["one", "two", "three"]


async def test_a39_without_the_original_only_the_others() -> None:
    said = "one way\nother way"
    assert await texts(MultiQuery(FakeChatModel(said), include_original=False)) == ["one way", "other way"]
    assert len(await texts(MultiQuery(FakeChatModel(""), include_original=False))) == 1


@pytest.mark.parametrize("answer", ["", "<think>x", "...", BROKEN])
async def test_a39_nothing_read_leaves_the_original_and_is_marked(answer: str | Exception) -> None:
    for make, code in ((MultiQuery, "multi_query_failed"), (Decompose, "decompose_failed")):
        trace = Trace()
        with trace.stage("expand"):
            assert await texts(make(FakeChatModel(answer))) == ["How often is the pump serviced?"]
        assert trace.degraded == [code]


async def test_a38_a_simple_question_has_no_parts_and_a_compound_one_has() -> None:
    assert len(await texts(Decompose(FakeChatModel("How often is the pump serviced?")))) == 1
    parts = await texts(Decompose(FakeChatModel("- Price of A?\n- Price of B?")), "Is A cheaper than B?")
    assert parts == ["Is A cheaper than B?", "Price of A?", "Price of B?"]


async def test_tokens_of_the_stages_are_counted() -> None:
    trace = Trace()
    with trace.stage("transform"):
        await Rewrite(FakeChatModel("x y"))(Query("a"))
        await MultiQuery(FakeChatModel("x y"))(Query("a"))
    assert trace.usage == Usage(input_tokens=2, output_tokens=2)


REFUSALS = [
    "I'm sorry, but I can't help with that.",
    "Sorry, I cannot rewrite this question.",
    "As an AI language model, I have no access to that.",
    "Could you please clarify what you mean by serviced?",
    "Please provide more details about the pump.",
    "抱歉，我无法回答这个问题。",
    "我无法改写该问题。",
    "请提供更多关于水泵的信息。",
]


@pytest.mark.parametrize(("name", "make"), MAKERS)
@pytest.mark.parametrize("said", REFUSALS)
async def test_a_refusal_or_a_question_back_is_not_a_question(
    name: str, make: Callable[[ChatModel], Transformer], said: str
) -> None:
    query, trace = Query("How is it serviced?", history=TALK), Trace()
    with trace.stage("transform"):
        assert (await make(FakeChatModel(said))(query)).text == query.text
    assert trace.degraded == [f"{name}_failed"]


@pytest.mark.parametrize("expand", [MultiQuery, Decompose])
async def test_refusals_among_wordings_are_dropped_and_marked(expand: type[MultiQuery]) -> None:
    trace = Trace()
    with trace.stage("expand"):
        said = "\n".join(f"{n}. {line}" for n, line in enumerate(["pump service interval", *REFUSALS], 1))
        found = await texts(expand(FakeChatModel(said), 9))
    assert found == ["How often is the pump serviced?", "pump service interval"]
    assert len(trace.degraded) == 1


@pytest.mark.parametrize("make", [Rewrite, Compress])
@pytest.mark.parametrize("said", ["bicycles and horses", "The pump is serviced every 17 weeks."])
async def test_what_is_about_something_else_or_an_answer_is_no_rewording(
    make: type[Rewrite] | type[Compress], said: str
) -> None:
    query, trace = Query("How is the pump serviced?", history=TALK), Trace()
    with trace.stage("transform"):
        assert (await make(FakeChatModel(said))(query)).text == query.text
    assert len(trace.degraded) == 1


async def test_a_question_that_sounds_like_a_refusal_itself_may_stay_one() -> None:
    query = Query("I cannot open the pump, what now?")
    changed = await Rewrite(FakeChatModel("I cannot open the pump of hall 3, what shall I do?"))(query)
    assert changed.text.startswith("I cannot open the pump of hall 3")
