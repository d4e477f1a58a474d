"""Every setting by environment and by file, and the recipe of a knowledge-base service in them."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from ragstone.errors import InvalidSetting
from ragstone.kb.settings import Settings, load

# Another value than the default for each, with what it needs beside it.
OTHER: dict[str, object] = {
    "lang": "zh",
    "database_url": "postgresql://me:hidden@db/x",
    "vector_index": "milvus",
    "vector_index_url": "http://localhost:19530",
    "chat_base_url": "http://localhost:11434/v1",
    "chat_model": "qwen",
    "chat_api_key": "hidden",
    "chat_timeout": 12.5,
    "chat_model_file": "/models/small.gguf",
    "chat_context": 4096,
    "embed_base_url": "https://dashscope.example/v1",
    "embed_model": "text-embedding-v4",
    "embed_api_key": "hidden",
    "embed_batch": 20,
    "embed_max_tokens": 1024,
    "embed_query_prefix": "query:",
    "embed_document_prefix": "passage:",
    "embed_threads": 1,
    "rerank_kind": "cohere",
    "rerank_base_url": "https://rerank.example/v1",
    "rerank_model": "gte-rerank",
    "rerank_api_key": "hidden",
    "rerank_top_n": 3,
    "rerank_min_score": 0.25,
    "chunk_size": 200,
    "chunk_overlap": 20,
    "chunk_parent": 900,
    "top_k": 9,
    "min_score": 0.28,
    "context_tokens": 2000,
    "max_answer_chars": 9_000,
    "recipe": "service",
    "rewrite": False,
    "short_length": 5,
    "medium_length": 14,
    "top_k_short": 21,
    "top_k_medium": 13,
    "min_score_short": 0.18,
    "prompts": "/etc/ragstone/prompts",
    "max_file_mb": 10,
    "parse_workers": 1,
    "parse_timeout": 30.0,
    "parse_memory_mb": 512,
    "password_file": "/etc/ragstone/passwords",
    "web_allow_private": True,
    "web_max_pages": 10,
    "host": "0.0.0.0",
    "port": 9090,
    "worker_concurrency": 4,
    "lease_seconds": 10.0,
    "blob_url": "s3://bucket/prefix",
    "redis_url": "redis://:hidden@localhost:6379/0",
    "cors_origins": "https://wiki.example.com",
    "log_format": "json",
    "log_level": "debug",
}
TOGETHER = (
    {"vector_index", "vector_index_url"},
    {"chat_base_url", "chat_model"},
    {"embed_base_url", "embed_model"},
    {"rerank_kind", "rerank_base_url", "rerank_model"},
)
NAMES = [item.name for item in fields(Settings) if item.name != "home" and not item.name.startswith("test_")]


def values_for(name: str) -> dict[str, object]:
    names = next((group for group in TOGETHER if name in group), {name})
    return {one: OTHER[one] for one in names}


def test_the_table_of_this_test_has_every_setting() -> None:
    assert sorted(NAMES) == sorted(OTHER)


@pytest.mark.parametrize("name", NAMES)
def test_a97_every_setting_can_be_set_by_environment_and_by_file(tmp_path: Path, name: str) -> None:
    values = values_for(name)
    home = {"RAGSTONE_HOME": str(tmp_path)}
    assert getattr(load(home), name) != OTHER[name]
    environment = {f"RAGSTONE_{one.upper()}": str(value) for one, value in values.items()}
    assert getattr(load(home | environment), name) == OTHER[name]
    file = tmp_path / "ragstone.toml"
    file.touch(mode=0o600)
    file.write_text("".join(f"{one} = {json.dumps(value)}\n" for one, value in values.items()))
    settings = load(home)
    assert getattr(settings, name) == OTHER[name]
    assert "hidden" not in f"{settings.shown()} {settings!r}"


def test_a100_the_service_listens_on_port_8080_of_this_machine_unless_told_otherwise(tmp_path: Path) -> None:
    settings = load({"RAGSTONE_HOME": str(tmp_path)})
    assert (settings.host, settings.port) == ("127.0.0.1", 8080)


def test_a97_the_defaults_of_the_service_are_those_of_the_row(tmp_path: Path) -> None:
    """Rows A41 and A54."""
    settings = load({"RAGSTONE_HOME": str(tmp_path), "RAGSTONE_RECIPE": "service"})
    assert settings.rewrite
    assert (settings.short_length, settings.medium_length) == (4, 12)
    assert (settings.top_k_short, settings.top_k_medium, settings.top_k) == (20, 12, 8)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"SHORT_LENGTH": "12"}, "short_length"),
        ({"TOP_K_SHORT": "0"}, "top_k_short"),
        ({"RECIPE": "servce"}, "recipe"),
        ({"REWRITE": "perhaps"}, "rewrite"),
        ({"MIN_SCORE_SHORT": "nan"}, "min_score_short"),
    ],
)
def test_a_wrong_value_of_the_recipe_is_named(tmp_path: Path, values: dict[str, str], named: str) -> None:
    environment = {f"RAGSTONE_{name}": value for name, value in values.items()}
    with pytest.raises(InvalidSetting, match=named):
        load({"RAGSTONE_HOME": str(tmp_path)} | environment)
