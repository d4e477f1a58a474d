"""RAGSTONE_PROMPTS: a user's own wordings reach the models and the reader."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from provider import Provider
from ragstone.errors import InvalidSetting
from ragstone.kb.facade import KnowledgeBases
from ragstone.kb.settings import load

pytestmark = pytest.mark.anyio


async def opened(**settings: object) -> KnowledgeBases:
    loaded = await anyio.to_thread.run_sync(lambda: load({}, overrides={"test_embedder": "fake", **settings}))
    return await KnowledgeBases.open(loaded)


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    folder = tmp_path / "prompts"
    folder.mkdir()
    (folder / "answer.en.md").write_text("# system\nSpeak like a sailor.\n# user\n{passages}\n{question}")
    (folder / "refusal.en.md").write_text("Not in the log.")
    (tmp_path / "pump.txt").write_text("The pump is in hall three.")
    return folder


async def test_a101_own_prompts_are_asked_with_and_refused_with(
    embedded_database: str, tmp_path: Path, prompts: Path
) -> None:
    async with Provider(chat=lambda body: "<no-answer/>") as provider:
        kb = await opened(
            home=tmp_path,
            database_url=embedded_database,
            chat_base_url=f"{provider.url}/v1",
            chat_model="m",
            prompts=str(prompts),
        )
        try:
            await kb.add(tmp_path / "pump.txt", base="prompts")
            answer = await kb.ask("Where is the pump?", bases=["prompts"])
            assert (answer.answered, answer.text) == (False, "Not in the log.")
            assert "Speak like a sailor." in str(provider.requests[-1].body)
        finally:
            await kb.aclose()


async def test_a_folder_that_is_not_there_is_named(embedded_database: str, tmp_path: Path) -> None:
    kb = await opened(home=tmp_path, database_url=embedded_database, prompts=str(tmp_path / "nowhere"))
    try:
        with pytest.raises(InvalidSetting, match="nowhere"):
            await kb.ask("Where is the pump?")
    finally:
        await kb.aclose()
