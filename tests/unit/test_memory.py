"""What a conversation remembers: whole turns, system messages, limits of messages and tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.errors import InvalidStage
from ragstone.memory import PARTIAL_MARK, WindowMemory, turn, window
from ragstone.types import Message

pytestmark = pytest.mark.anyio


def said(*pairs: str) -> list[Message]:
    """`u:...`, `a:...` and `s:...` as messages."""
    roles = {"u": "user", "a": "assistant", "s": "system"}
    return [Message(role=roles[pair[0]], content=pair[2:]) for pair in pairs]  # type: ignore[arg-type]


def test_a73_ten_messages_are_kept_by_default_and_the_oldest_turns_leave_whole() -> None:
    messages = [message for n in range(8) for message in said(f"u:question {n}", f"a:answer {n}")]
    assert window(messages) == tuple(messages[-10:])
    assert window(messages, max_messages=9) == tuple(messages[-8:])


def test_a_turn_that_does_not_fit_ends_the_window_though_older_ones_would() -> None:
    messages = said("u:1", "a:1", "u:2", "a:2", "a:2b", "a:2c", "u:3", "a:3")
    assert window(messages, max_messages=5) == tuple(said("u:3", "a:3"))


def test_system_messages_stay_in_their_place_and_count() -> None:
    messages = said("s:be brief", "u:1", "a:1", "s:be kind", "u:2", "a:2")
    assert window(messages, max_messages=4) == tuple(said("s:be brief", "s:be kind", "u:2", "a:2"))
    assert window(messages, max_messages=1) == tuple(said("s:be brief", "s:be kind"))


def test_an_answer_without_its_question_is_never_first() -> None:
    assert window(said("a:welcome", "u:1", "a:1")) == tuple(said("u:1", "a:1"))


def test_c37_tokens_limit_the_window_too() -> None:
    messages = said("u:第一个问题", "a:" + "长" * 50, "u:第二个问题", "a:短")
    assert window(messages, max_tokens=20) == tuple(messages[2:])
    assert window(messages, max_tokens=2) == ()
    assert window(messages, max_tokens=500) == tuple(messages)


@given(
    st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text(max_size=20)), max_size=30),
    st.integers(1, 12),
    st.integers(1, 60) | st.none(),
)
def test_a73_properties_of_every_window(
    pairs: list[tuple[str, str]], max_messages: int, max_tokens: int | None
) -> None:
    messages = [Message(role=role, content=content) for role, content in pairs]  # type: ignore[arg-type]
    kept = window(messages, max_messages=max_messages, max_tokens=max_tokens)
    system = [message for message in messages if message.role == "system"]
    assert [message for message in kept if message.role == "system"] == system
    assert len(kept) <= max(max_messages, len(system))
    spoken = [message for message in kept if message.role != "system"]
    assert not spoken or spoken[0].role == "user"
    # The latest, without gaps.
    all_spoken = [message for message in messages if message.role != "system"]
    assert not spoken or spoken == all_spoken[-len(spoken) :]
    assert window(kept, max_messages=max_messages, max_tokens=max_tokens) == kept


async def test_conversations_know_nothing_of_each_other_and_are_bounded() -> None:
    memory = WindowMemory(max_chats=2)
    await memory.add("a", turn("1", "one"))
    await memory.add("b", turn("2", "two"))
    assert [message.content for message in await memory.messages("a")] == ["1", "one"]
    await memory.add("c", turn("3", "three"))  # the one used least recently goes
    assert await memory.messages("b") == ()
    assert await memory.messages("a") != ()
    await memory.clear("a")
    assert await memory.messages("a") == ()
    assert await memory.messages("never seen") == ()


def test_a_turn_that_was_left_is_marked_and_one_without_a_word_is_none() -> None:
    assert turn("q", "half an ", whole=False)[1].content == "half an" + PARTIAL_MARK
    assert turn("q", " \n", whole=False) == ()


@pytest.mark.parametrize("limits", [{"max_messages": 0}, {"max_tokens": 0}, {"max_chats": 0}])
def test_a_limit_below_one_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(InvalidStage, match=next(iter(limits))):
        WindowMemory(**limits)
