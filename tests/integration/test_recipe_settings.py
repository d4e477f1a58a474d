"""RAGSTONE_RECIPE=service: the recipe reaches whoever asks, with its values from the settings."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from provider import Provider
from ragstone.kb.facade import KnowledgeBases
from ragstone.kb.settings import load

pytestmark = pytest.mark.anyio

SHORT, MEDIUM, LONG = "pump", "pump service", "when is the pump service in hall three"


def environment(home: Path, conninfo: str, **settings: object) -> dict[str, str]:
    values = {
        "home": home,
        "database_url": conninfo,
        "test_embedder": "fake",
        "recipe": "service",
        **settings,
    }
    return {f"RAGSTONE_{name.upper()}": str(value) for name, value in values.items()}


async def opened(variables: dict[str, str]) -> KnowledgeBases:
    return await KnowledgeBases.open(await anyio.to_thread.run_sync(load, variables))


async def test_a97_width_and_rewriting_of_the_service_follow_the_settings(
    embedded_database: str, tmp_path: Path
) -> None:
    """Rows A41 and A54 by environment."""
    for number in range(9):
        line = f"In hall three the pump service number {number} is on day {number}."
        await anyio.Path(tmp_path / f"{number}.txt").write_text(line)
    widths = {"top_k_short": 6, "top_k_medium": 5, "top_k": 4}
    async with Provider(chat=lambda body: "The pump service is on day 3 [1].") as provider:
        model = {"chat_base_url": f"{provider.url}/v1", "chat_model": "m"}
        for rewrite in (True, False):
            variables = environment(tmp_path, embedded_database, rewrite=rewrite, **widths, **model)
            kb = await opened(variables)
            try:
                await kb.add(tmp_path, base="recipe", glob="*.txt")
                found: list[int] = []
                before = len(provider.requests)
                for question in (SHORT, MEDIUM, LONG):
                    found.append(len((await kb.ask(question, bases=["recipe"])).hits))
                assert found == [6, 5, 4]
                # One request a question answers it; another rewords it before.
                assert len(provider.requests) - before == (6 if rewrite else 3)
                assert len((await kb.ask(SHORT, bases=["recipe"], top_k=2)).hits) == 2
            finally:
                await kb.aclose()


async def test_a97_the_least_score_of_the_service_follows_the_settings(
    embedded_database: str, tmp_path: Path
) -> None:
    await anyio.Path(tmp_path / "1.txt").write_text("The pump service is in hall three.")
    for least, answered in ((0.0, True), (1.0, False)):
        variables = environment(tmp_path, embedded_database, min_score_short=least)
        kb = await opened(variables)
        try:
            await kb.add(tmp_path / "1.txt", base="least")
            answer = await kb.ask(SHORT, bases=["least"])
            assert (answer.answered, bool(answer.hits)) == (answered, answered)
        finally:
            await kb.aclose()
