"""What a reader sees of a generator's text, and both generators."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstone.augment import CitedContext
from ragstone.cite import cite
from ragstone.errors import ProviderUnavailable
from ragstone.generate import NO_ANSWER, ExtractiveGenerator, ModelGenerator, visible, without_thinking
from ragstone.generate.relevance import Relevance
from ragstone.testing import FakeEmbedder
from ragstone.testing.chat import FakeChatModel
from ragstone.types import Chunk, Delta, Hit, Prompt, Query, Score, Usage, Vectors

pytestmark = pytest.mark.anyio


async def deltas(pieces: Sequence[str]) -> AsyncIterator[Delta]:
    for piece in pieces:
        yield Delta(text=piece)


async def seen(pieces: Sequence[str], count: int = 3, *, verbatim: bool = False) -> tuple[str, str, bool]:
    """What was shown, what is kept, and whether it is an answer."""
    stream = visible(deltas(pieces), count, verbatim=verbatim)
    shown = "".join([delta.text async for delta in stream])
    return shown, stream.text, stream.answered


# --- visible -----------------------------------------------------------------------

ANSWERS = [
    ("The sky is blue [1].", "The sky is blue [1]."),
    ("<think>is it?</think>\n\nBlue [1].", "Blue [1]."),
    ("<Thinking>\nno\n</Thinking>Blue [1].", "Blue [1]."),
    ("\n<think>a</think>\n<think>b</think>\nBlue.", "Blue."),
    ("Blue [1].\n<think>more?</think>\nGreen [2].", "Blue [1].\n\nGreen [2]."),
    ("Write `<think>` and `</think>` around it [1].", "Write `<think>` and `</think>` around it [1]."),
    ("A <think> tag is closed by </think> here [1].", "A <think> tag is closed by </think> here [1]."),
    ("a < b, <b>bold</b> and <thinner> [9].", "a < b, <b>bold</b> and <thinner>."),
    ("信息不足时应先补充材料 [1]。", "信息不足时应先补充材料 [1]。"),
    ("未检索到相关信息。但第二段说明了期限 [2]。", "未检索到相关信息。但第二段说明了期限 [2]。"),
    ("系统在信息不足的情况下会提示用户，并写入日志。", "系统在信息不足的情况下会提示用户，并写入日志。"),
    ("I do not know of a better text than [1].", "I do not know of a better text than [1]."),
    ("Version 2.5 is out.", "Version 2.5 is out."),
    ("It is `<no-answer/>` that is written.", "It is `<no-answer/>` that is written."),
    ("Only a part is answered [1]. <no-answer/>", "Only a part is answered [1]."),
]
NO_ANSWERS = [
    "<no-answer/>",
    "  \n**<no-answer/>**",
    "`<no-answer />` The passages are about cats.",
    "<NO-ANSWER> nothing",
    "<think>hm</think><no-answer/>",
    "<think>never closed",
    "",
    " \n",
    "<think>only this</think>",
    "抱歉，未检索到相关信息。",
    "没有找到相关信息",
    "信息不足。",
    "根据提供的资料，信息不足，无法回答该问题。",
    "该问题超出知识库范围。请换一个问题。",
    "很抱歉，无法根据提供内容回答。",
    "I don't know.",
    "I’m sorry, but the provided passages do not contain the answer. Please ask another question.",
    "Unfortunately, I cannot answer this question from the passages.",
    "No relevant information was found.",
]


@pytest.mark.parametrize(("raw", "expected"), ANSWERS)
async def test_c42_answers_are_shown_without_reasoning(raw: str, expected: str):
    for pieces in ([raw], list(raw), re.findall(r".{1,5}", raw, re.DOTALL)):
        shown, kept, answered = await seen(pieces)
        assert answered
        assert kept == expected
        assert shown.strip() == expected


@pytest.mark.parametrize("raw", NO_ANSWERS)
async def test_w15_a78_a79_no_answer_is_the_same_for_stream_and_whole(raw: str):
    for pieces in ([raw], list(raw), re.findall(r".{1,7}", raw, re.DOTALL)):
        assert await seen(pieces) == (NO_ANSWER, NO_ANSWER, False)


async def test_reasoning_without_an_opening_tag_is_dropped():
    long = "I look at the passages first. " * 20
    for raw in ("Let me see.</think>Blue [1].", f"{long}</think>\n\nBlue [1]."):
        for pieces in ([raw], list(raw)):
            _, kept, answered = await seen(pieces)
            assert (kept, answered) == ("Blue [1].", True)


async def test_reasoning_shown_too_early_does_not_hide_a_refusal():
    raw = "The passages are about cats and dogs. Not birds. " * 5 + "</think><no-answer/>"
    for pieces in ([raw], list(raw)):
        _, kept, answered = await seen(pieces)
        assert (kept, answered) == (NO_ANSWER, False)


PIECES = st.lists(
    st.sampled_from(
        [
            *"<>/`. \n。[]1",
            "think",
            "</think>",
            "<think>",
            "<no-answer/>",
            "信息不足",
            "I don't know.",
            "[1]",
            "no-a",
        ]
    ),
    max_size=16,
)


@settings(deadline=None, max_examples=300)
@given(PIECES, st.lists(st.integers(0, 60), max_size=6))
async def test_w15_c42_what_is_kept_does_not_depend_on_the_cut(pieces: list[str], places: list[int]):
    raw = "".join(pieces)
    _, kept, answered = await seen([raw])
    cuts = sorted(min(place, len(raw)) for place in places)
    for parts in ([raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)], list(raw)):
        _, again, answered_again = await seen(parts)
        assert (again, answered_again) == (kept, answered)


async def test_a79_an_answer_flows_once_it_is_known():
    stream = visible(deltas(["The sky is blue. ", "It ", "was grey."]), 1)
    assert (await anext(stream)).text == "The sky is blue."
    assert (await anext(stream)).text == " It"
    await stream.aclose()


async def test_quoted_documents_may_speak_of_anything():
    """W15: a document that speaks of 信息不足 is no refusal, streamed or whole."""
    for quoted in (
        "<think> tags hide reasoning [1]",
        "</think> ends it [1]",
        "信息不足。[1]",
        "Say <no-answer/> [1]",
    ):
        assert await seen(list(quoted), verbatim=True) == (quoted, quoted, True)
    assert await seen(["<no-", "answer/>"], verbatim=True) == (NO_ANSWER, NO_ANSWER, False)


def test_whole_outputs_lose_their_reasoning():
    assert without_thinking("<think>hm</think>\nq1\nq2\n") == "q1\nq2"
    assert without_thinking("hm</think>q1") == "q1"
    assert without_thinking("<think>hm") == ""


# --- model -------------------------------------------------------------------------


async def prompt_of(question: str, *texts: str, cosine: float | None = None, title: str = "") -> Prompt:
    hits: list[Hit] = []
    for index, text in enumerate(texts):
        chunk = Chunk(text=text, document_id=f"d{index}", index=0, start=0, end=len(text))
        scores = () if cosine is None else (Score(stage="s", scale="cosine", value=cosine, rank=index + 1),)
        hits.append(Hit(chunk=chunk, uri=f"u{index}", title=title, scores=scores))
    return await CitedContext()(Query(question), hits)


async def test_a_model_answers_from_the_prompt_and_its_usage_arrives_last():
    chat = FakeChatModel(["<think>well", "</think>Blue", " [1]", "."])
    prompt = await prompt_of("What colour?", "The sky is blue.")
    stream = visible(ModelGenerator(chat)(prompt), 1)
    received = [delta async for delta in stream]
    assert "".join(delta.text for delta in received) == stream.text == "Blue [1]."
    assert received[-1].usage == Usage(input_tokens=2, output_tokens=4)
    assert chat.requests == [prompt.messages]


async def test_a_model_whose_reasoning_has_no_opening_tag_shows_none_of_it():
    chat = FakeChatModel([*("I think about it. " * 30), "</think>", "Blue [1]."])
    stream = visible(ModelGenerator(chat, thinks=True)(await prompt_of("What?", "Blue.")), 1)
    assert "".join([delta.text async for delta in stream]) == "Blue [1]."


async def test_leaving_early_closes_the_models_stream():
    chat = FakeChatModel(["The sky is blue. ", "It ", "was."])
    stream = visible(ModelGenerator(chat)(await prompt_of("What?", "Blue.")), 1)
    await anext(stream)
    await stream.aclose()
    assert chat.closed_early == 1


async def test_an_error_in_the_middle_reaches_the_reader():
    chat = FakeChatModel(["The sky is blue. ", ProviderUnavailable("chat.cut", url="u")])
    stream = visible(ModelGenerator(chat)(await prompt_of("What?", "Blue.")), 1)
    assert (await anext(stream)).text
    with pytest.raises(ProviderUnavailable):
        await anext(stream)
    assert stream.text == "The sky is blue."


# --- extractive --------------------------------------------------------------------

LEAVE = "Staff register at the front desk. Annual leave is five days a year. Parking is free for guests."
SICK = "Sick leave needs a certificate. It is paid at seventy percent."


async def quoted(prompt: Prompt, embedder: FakeEmbedder | None = None) -> str:
    stream = visible(ExtractiveGenerator(embedder)(prompt), len(prompt.passages), verbatim=True)
    return "".join([delta.text async for delta in stream])


@pytest.mark.parametrize("embedder", [None, FakeEmbedder()])
async def test_the_sentence_that_answers_is_quoted_with_its_marker(embedder: FakeEmbedder | None):
    prompt = await prompt_of("How many days of annual leave do I get?", SICK, LEAVE)
    answer = await quoted(prompt, embedder)
    assert "Annual leave is five days a year. [2]" in answer
    assert "Parking" not in answer


async def test_chinese_questions_are_answered_in_chinese():
    text = "员工在前台登记。年休假为五天，按工龄计算。访客停车免费。"
    answer = await quoted(await prompt_of("年休假有几天？", text))
    assert answer == "年休假为五天，按工龄计算。[1]"


@pytest.mark.parametrize("embedder", [None, FakeEmbedder()])
@pytest.mark.parametrize("question", ["Who painted the ceiling?", "银河系有多大？"])
async def test_nothing_relevant_is_no_answer(embedder: FakeEmbedder | None, question: str):
    assert await quoted(await prompt_of(question, LEAVE, SICK), embedder) == NO_ANSWER


async def test_a81_every_quotation_is_found_again_in_its_document():
    text = "The notice\nperiod is one\nmonth.[4] Use `x` or ``` here. 试用期\n为三个月。"
    for question in ("How long is the notice period?", "Where do I use `x`?", "试用期有多长？"):
        prompt = await prompt_of(question, text)
        cited = cite(await quoted(prompt), prompt.passages)
        assert cited.citations, question
        assert all(text[one.start : one.end] == one.quote for one in cited.citations)
        assert cited.audit["removed_markers"] == []


@pytest.mark.parametrize("embedder", [None, FakeEmbedder()])
async def test_copies_of_a_document_are_quoted_once(embedder: FakeEmbedder | None):
    copy = LEAVE.replace("leave is", "leave\nis")
    answer = await quoted(await prompt_of("How many days of annual leave?", LEAVE, copy), embedder)
    assert answer.count("Annual leave is five days a year.") == 1
    assert "[2]" not in answer


async def test_a_question_in_a_document_is_answered_by_what_follows_it():
    text = (
        "## Parking\n\nHow many days of leave do I get? Five of them. Where do guests park? Behind the house."
    )
    answer = await quoted(await prompt_of("Where do guests park?", text))
    assert answer == "Behind the house. [1]"


async def test_a_long_passage_without_sentences_is_quoted_in_part():
    text = "leave " * 400
    answer = await quoted(await prompt_of("leave", text))
    assert answer != NO_ANSWER
    assert all(len(part) <= 420 for part in answer.split("[1]"))


async def test_few_sentences_are_embedded():
    embedder = FakeEmbedder()
    text = " ".join(f"Leave rule {number} says so." for number in range(60))
    await quoted(await prompt_of("What does leave rule 7 say?", text, text), embedder)
    assert len(embedder.texts_embedded) <= 17


async def test_a_sentence_longer_than_the_model_reads_is_no_error():
    embedder = FakeEmbedder(max_tokens=20)
    text = "Leave of " + "very " * 60 + "many days is granted."
    assert await quoted(await prompt_of("How many days of leave?", text), embedder) != NO_ANSWER


async def test_blank_passages_are_no_answer():
    assert await quoted(await prompt_of("What?", " \n", "...")) == NO_ANSWER


E5 = "multilingual-e5-small/int8/2"


class PlacedEmbedder(FakeEmbedder):
    """Every text is as near to every question as `cosine` says."""

    def __init__(self, cosine: float) -> None:
        super().__init__(identity=E5)
        self._cosine = cosine

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return Vectors(model=E5, values=np.array([[1.0, 0.0]] * len(texts), np.float32))

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        near = [self._cosine, (1 - self._cosine**2) ** 0.5]
        return Vectors(model=E5, values=np.array([near] * len(texts), np.float32))


@pytest.mark.parametrize(("cosine", "answered"), [(0.90, True), (0.80, False)])
async def test_cosines_of_a_measured_model_decide_across_words(cosine: float, answered: bool):
    """W32, decision 11."""
    prompt = await prompt_of("What may I take off to rest?", "Annual leave is five days.", cosine=cosine)
    answer = await quoted(prompt, PlacedEmbedder(cosine))
    assert (answer != NO_ANSWER) is answered


@pytest.mark.parametrize(("cosine", "answered"), [(0.85, True), (0.75, False)])
async def test_the_scale_of_cosines_is_lower_across_languages(cosine: float, answered: bool):
    """W32, decision 11: least cosines are of one model and its languages."""
    prompt = await prompt_of("年假有几天？", "Annual leave is five days.", cosine=cosine)
    answer = await quoted(prompt, PlacedEmbedder(cosine))
    assert (answer != NO_ANSWER) is answered


async def test_a_passage_far_ahead_of_the_others_is_relevant():
    near = await prompt_of("What may I rest?", "Leave is five days.", "Cats.", "Dogs.", cosine=0.85)
    assert await quoted(near, PlacedEmbedder(0.85)) == NO_ANSWER
    ahead = [hit.scored(Score(stage="s", scale="cosine", value=0.78, rank=1)) for hit in near.passages[1:]]
    far = Prompt(query=near.query, messages=near.messages, passages=(near.passages[0], *ahead))
    assert await quoted(far, PlacedEmbedder(0.85)) == "Leave is five days. [1]"


async def test_an_own_rule_replaces_the_measured_one():
    prompt = await prompt_of("What may I take off?", "Annual leave is five days.", cosine=0.3)
    least = {(asked, told): 0.2 for asked in ("en", "zh") for told in ("en", "zh")}
    generate = ExtractiveGenerator(FakeEmbedder(), relevance=Relevance(least=least))
    assert [candidate.n for candidate in await generate.choose(prompt)] == [1]


async def test_a_model_of_unknown_scale_answers_across_languages():
    prompt = await prompt_of("年假有几天？", "Annual leave is five days.", cosine=0.3)
    assert await quoted(prompt, FakeEmbedder()) != NO_ANSWER


class DownEmbedder(FakeEmbedder):
    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        raise ProviderUnavailable("chat.connection", url="u")


async def test_d9_sentences_are_chosen_by_terms_while_the_embedder_is_down():
    prompt = await prompt_of("How many days of annual leave do I get?", SICK, LEAVE)
    assert await quoted(prompt, DownEmbedder()) == await quoted(prompt, None) != NO_ANSWER


async def test_words_that_only_look_like_question_words_count():
    answer = await quoted(await prompt_of("几何是什么？", "代数研究运算。几何研究图形。"))
    assert answer == "几何研究图形。[1]"


async def test_a81_c38_each_quoted_list_item_has_its_own_citation() -> None:
    """An item that goes on in the next line, or has no full stop, does not run into the next one."""
    text = "Fares:\n\n- Dogs travel free\n  on every ferry\n- Bicycles cost 9 euros\n"
    chunk = Chunk(text=text, document_id="d", index=0, start=0, end=len(text))
    found = (Hit(chunk=chunk, uri="u", title=""),)
    prompt = Prompt(query=Query("Dogs or bicycles?"), messages=(), passages=found)
    generate = ExtractiveGenerator()
    said = "".join([delta.text async for delta in generate(prompt)])
    assert said == "Dogs travel free on every ferry [1]\n\nBicycles cost 9 euros [1]"
    quotes = [citation.quote for citation in cite(said, prompt.passages).citations]
    assert quotes == ["Dogs travel free\n  on every ferry", "Bicycles cost 9 euros"]
