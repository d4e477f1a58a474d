"""What of a passage is quoted without a chat model, and how it is written."""

from __future__ import annotations

import pytest

from ragstone.cite import cite
from ragstone.generate import NO_ANSWER, ExtractiveGenerator, visible
from ragstone.generate.quotes import parts_of
from ragstone.generate.relevance import MEASURED, identifiers, names
from ragstone.types import Chunk, Hit, Prompt, Query, Score

pytestmark = pytest.mark.anyio

FARES = """# Ferry

| trip | adult | child |
|---|---|---|
| Brell | 12 euros | 5 euros |
| Otterby | 19 euros | 8 euros |

Tickets are sold on board.
"""


def hit_of(text: str, *, context: str = "", headings: tuple[str, ...] = (), **scores: float) -> Hit:
    chunk = Chunk(
        text=text, document_id="d", index=0, start=0, end=len(text), context=context, headings=headings
    )
    found = tuple(Score(stage="s", scale=scale, value=value, rank=1) for scale, value in scores.items())
    return Hit(chunk=chunk, uri="u", title="", scores=found)


def parts(text: str) -> list[tuple[str, str]]:
    """(what is above, what can be quoted)."""
    return [(one.heading, one.text) for one in parts_of(1, hit_of(text))]


async def answer(question: str, *hits: Hit) -> str:
    prompt = Prompt(query=Query(question), messages=(), passages=hits)
    stream = visible(ExtractiveGenerator()(prompt), len(hits), verbatim=True)
    return "".join([delta.text async for delta in stream])


def test_c38_a_heading_is_never_quoted_but_says_what_its_sentences_are_about():
    """C38, A81."""
    assert parts("# Rules\n\n## Dogs\n\nThey travel free. Cats too.\n\n## Bikes\n\nNine euros.") == [
        ("Dogs", "They travel free."),
        ("Dogs", "Cats too."),
        ("Bikes", "Nine euros."),
    ]


def test_a_short_line_of_its_own_is_a_title():
    assert parts("客房须知\n\n早餐七点开始。退房在十二点前。") == [
        ("客房须知", "早餐七点开始。"),
        ("客房须知", "退房在十二点前。"),
    ]
    assert parts("Room 12\n\nBreakfast is at 7.")[0] == ("", "Room 12")


def test_a_question_and_a_lead_in_belong_to_what_follows():
    text = "Who may board?\n\nAll guests. Crew too.\n\nYou need:\n\n- a ticket\n- shoes\n\nHave fun."
    assert parts(text) == [
        ("Who may board?", "All guests."),
        ("Who may board?", "Crew too."),
        ("You need:", "- a ticket"),
        ("You need:", "- shoes"),
        ("", "Have fun."),
    ]


def test_lines_with_labels_and_numbered_sections_are_taken_apart():
    text = "时间:五月二日\n地点:二号厅\n\n一、决定\n采购新泵,由林青负责。"
    assert parts(text) == [("", "时间:五月二日"), ("", "地点:二号厅"), ("一、决定", "采购新泵,由林青负责。")]


def test_every_part_stands_in_the_passage_where_it_says():
    """A81."""
    text = FARES + "\n二、其他\n时间:九点\n地点:码头\n" + "word " * 200
    for one in parts_of(1, hit_of(text)):
        assert text[one.start : one.start + len(one.text)] == one.text


async def test_a81_a_row_is_quoted_in_its_table_and_cited_by_itself():
    """A81, C38: the header is shown once, the delimiter keeps it a table."""
    found = hit_of(FARES)
    said = await answer("What is the adult fare to Otterby?", found)
    assert said == ("| trip | adult | child |\n|---|---|---|\n| Otterby | 19 euros | 8 euros | [1]")
    assert [one.quote for one in cite(said, [found]).citations] == ["| Otterby | 19 euros | 8 euros |"]


async def test_rows_of_a_table_cut_from_its_header_are_quoted_with_it():
    found = hit_of(
        "| Brell | 12 euros |", context="Ferry > Fares\n| trip | adult |", headings=("Ferry", "Fares")
    )
    (one,) = parts_of(1, found)
    assert (one.heading, one.header) == ("Fares\n| trip | adult |", "| trip | adult |")


async def test_a77_an_identifier_that_no_passage_holds_is_refused():
    """A77: a text about E31 does not answer a question about E99."""
    errors = hit_of("Error E31 means that the disk is full. Error E12 means that the host is away.")
    assert await answer("What does error E31 mean?", errors) == "Error E31 means that the disk is full. [1]"
    assert await answer("What does error E99 mean?", errors) == NO_ANSWER


async def test_of_a_table_only_the_row_that_the_question_names_is_quoted():
    table = hit_of("| level | reply |\n|---|---|\n| P1 | 15 minutes |\n| P2 | 1 hour |\n")
    said = await answer("P2 level reply?", table)
    assert "P2" in said
    assert "P1" not in said


@pytest.mark.parametrize(
    ("question", "text", "held"),
    [
        ("Where is AB-1203/7 stored?", "ab1203-7 lies in hall 4", True),
        ("What does E31 mean?", "E310 is another code", False),
        ("错误E99是什么？", "错误E31表示磁盘已满。", False),
        ("How was Q3?", "The third quarter was good.", True),
        ("What happened in 2024?", "Last year was good.", True),
    ],
)
def test_identifiers_are_found_however_they_are_joined(question: str, text: str, held: bool):
    assert names(text, identifiers(question)) is held


def test_tokens_that_match_make_up_for_a_lower_cosine():
    """W32: late interaction counts where it was computed; without it a usual value stands for it."""
    rule = MEASURED["multilingual-e5-small"]

    def surplus(tokens: float) -> float:
        hits = [hit_of("One.", cosine=0.86, hybrid=0.4, late=(0.8 + tokens) / 3)]
        hits += [hit_of("Two.", cosine=0.86, hybrid=0.4, late=(0.8 + 0.3) / 3) for _ in range(2)]
        return rule.surplus("What?", hits, {1: 0.86})[1]

    assert surplus(0.6) - surplus(0.3) == pytest.approx(0.2)
    assert rule.surplus("What?", [hit_of("One.", cosine=0.86)], {1: 0.9})[1] > 0


async def test_empty_cells_at_the_end_of_a_row_stay() -> None:
    found = hit_of("| trip | adult | child |\n|---|---|---|\n| Otterby | 19 euros |  |")
    said = await answer("What is the adult fare to Otterby?", found)
    assert said.endswith("| Otterby | 19 euros | | [1]")
    assert [one.quote for one in cite(said, [found]).citations] == ["| Otterby | 19 euros |  |"]
