"""The application as processes, once for all acceptance tests that speak HTTP with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import deployment
from deployment import Deployment
from provider import Provider, threaded

FACT = "The answer is in the passage [1]."


def _chat(body: dict[str, Any]) -> list[str]:
    """A follow-up is made whole; whatever else is asked, the first passage is cited."""
    if body["messages"][-1]["content"].startswith("A conversation, and the question that follows it"):
        return ["Which pier does the night ferry to Halm leave from?"]
    return [FACT[:14], FACT[14:]]


@pytest.fixture(scope="session")
def chat_provider() -> Iterator[Provider]:
    with threaded(chat=_chat) as provider:
        yield provider


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, chat_provider: Provider) -> Iterator[Deployment]:
    """API and two workers on PostgreSQL, Redis and S3, with a chat model; keys are asked for."""
    settings = {"chat_base_url": f"{chat_provider.url}/v1", "chat_model": "said", "lease_seconds": "5"}
    with deployment.cluster(tmp_path_factory.mktemp("cluster"), **settings) as deployed:
        yield deployed


@pytest.fixture(scope="session")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """One process with everything embedded, as `ragstone serve` starts; no key is asked for."""
    with deployment.single(tmp_path_factory.mktemp("single")) as deployed:
        yield deployed
