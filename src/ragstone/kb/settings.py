"""All settings, and the only reader of the environment.

Every setting has a default, may stand in `ragstone.toml` in the home folder under its
name (`chunk_size = 300`), and may be set by an environment variable, which wins
(`RAGSTONE_CHUNK_SIZE=300`). A name that does not exist is an error, not a silence.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal, get_args, get_type_hints
from urllib.parse import urlsplit, urlunsplit

from ragstone.errors import InvalidSetting
from ragstone.messages import Language

PREFIX = "RAGSTONE_"
FILE_NAME = "ragstone.toml"
_SECRETS = ("chat_api_key", "embed_api_key", "rerank_api_key")
# In the query of an address, or among libpq's words, where a value may be quoted.
_SECRET_VALUE = re.compile(
    r"((?:password|passwd|key|token|secret)\s*=\s*)('(?:[^'\\]|\\.)*'|[^&#\s]+)", re.IGNORECASE
)
# As browsers send it: a name or an address, and the port only where it is not the scheme's own.
_ORIGIN = re.compile(r"https?://(?:[a-z0-9.-]+|\[[0-9a-f:]+\])(?::[0-9]{1,5})?", re.ASCII)
_URLS = (
    "database_url",
    "blob_url",
    "redis_url",
    "vector_index_url",
    "chat_base_url",
    "embed_base_url",
    "rerank_base_url",
)
# Read by the test suite, not by the application.
_FOREIGN = ("RAGSTONE_TEST_MODELS",)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What can be set. Sizes are in tokens of the embedding model, times in seconds."""

    home: Path
    """All state: database, models, logs, `ragstone.toml`."""
    lang: Literal["auto", "en", "zh"] = "auto"
    """Language of messages; `auto` follows the locale."""
    database_url: str = field(default="", repr=False)
    """`postgresql://...` of a server of yours (15+, pgvector 0.8+). Empty: embedded PostgreSQL."""

    vector_index: Literal["", "milvus", "redis"] = ""
    """A vector index beside PostgreSQL, for collections too large for one machine. Empty: none."""
    vector_index_url: str = field(default="", repr=False)
    """`http://localhost:19530` or a file `milvus.db` for milvus; `redis://localhost:6379/0` for redis."""

    chat_base_url: str = ""
    """OpenAI-compatible endpoint, such as `http://localhost:11434/v1`. Empty: extractive answers."""
    chat_model: str = ""
    """Name of the chat model at that endpoint."""
    chat_api_key: str = field(default="", repr=False)
    chat_timeout: float = 60.0
    """How long an answer waits for the first byte of the chat model, all tries counted, and the longest
    silence after that. Then the answer is quoted. A model file has 180 seconds to its first word."""
    chat_model_file: str = ""
    """A GGUF file that is run in this process, instead of an endpoint. Needs `ragstone[gguf]`."""
    chat_context: int = 8_192
    """Tokens of prompt and answer that the model of the file holds."""

    embed_base_url: str = ""
    """OpenAI-compatible endpoint for embeddings. Empty: the local model."""
    embed_model: str = ""
    embed_api_key: str = field(default="", repr=False)
    embed_batch: int = 10
    """Texts a request; some providers refuse more than 10."""
    embed_max_tokens: int = 512
    """The longest text the remote model reads."""
    embed_query_prefix: str = ""
    embed_document_prefix: str = ""
    embed_threads: int = 0
    """Threads of the local model; 0: as many as there are cores."""

    rerank_kind: Literal["", "cohere", "dashscope", "tei", "judge"] = ""
    """What reranks the passages of an answer: a server in the shape of Cohere's API (Jina, vLLM, ...),
    of DashScope or of text-embeddings-inference; `judge` asks the chat model. Empty: nothing."""
    rerank_base_url: str = ""
    """Such as `https://api.jina.ai/v1` or `http://localhost:8081`."""
    rerank_model: str = ""
    rerank_api_key: str = field(default="", repr=False)
    rerank_top_n: int = 5
    """Passages kept of at least 20 candidates."""
    rerank_min_score: float = 0.1
    """The least score a kept passage has; where none has it the question is refused."""

    chunk_size: int = 300
    chunk_overlap: int = 30
    chunk_parent: int = 0
    """Tokens of the passage around a found chunk that goes into the prompt; 0: the chunk itself."""
    top_k: int = 8
    """Passages an answer is written from, and hits of a search."""
    min_score: float | None = None
    """The least score of a passage that a question of the API is answered from, 0 to 1 as hybrid search
    gives it. Empty: any."""
    context_tokens: int = 3_000
    """The most that passages may take of the prompt."""
    max_answer_chars: int = 64_000
    """Characters after which an answer is cut off: a model that repeats itself is stopped there."""

    recipe: Literal["", "service"] = ""
    """How questions are answered; `service` rewords them, reaches wider for short ones and refuses weak
    passages (docs/blocks.md). Empty: the whole question is searched as it is."""
    rewrite: bool = True
    """Whether `service` has the chat model reword questions."""
    short_length: int = 4
    """Characters without white space up to which `service` takes a question for short."""
    medium_length: int = 12
    top_k_short: int = 20
    """Instead of `top_k` for short questions, with `service`."""
    top_k_medium: int = 12
    min_score_short: float | None = None
    """Instead of `min_score` for short questions, with `service`. Empty: as `min_score`, or as measured."""

    prompts: str = ""
    """Folder of own prompts: a file such as `answer.en.md` or `refusal.zh.md` replaces ours."""

    max_file_mb: int = 50
    parse_workers: int = 2
    parse_timeout: float = 60.0
    parse_memory_mb: int = 1_024
    password_file: str = ""
    """A file with a password a line, tried on encrypted files; readable by you only."""
    web_allow_private: bool = False
    """Whether `add` may read addresses inside a network (localhost, 10.0.0.0/8, ...)."""
    web_max_pages: int = 1_000
    """Pages read of one sitemap."""

    host: str = "127.0.0.1"
    """The address `ragstone serve` listens on; any other than the machine's own needs a key first."""
    port: int = 8080
    worker_concurrency: int = 2
    """Files that `serve` and `worker` index at once; 0: `serve` indexes none and leaves it to workers."""
    lease_seconds: float = 30.0
    """How long a job of a worker that died is waited for."""
    blob_url: str = ""
    """Where originals lie: `s3://bucket/prefix`, `gs://...`, `az://...`. Empty: a folder in the home."""
    redis_url: str = field(default="", repr=False)
    """`redis://...` whose stream wakes workers of many machines. Empty: PostgreSQL's NOTIFY."""
    cors_origins: str = ""
    """Origins whose pages may call the API, such as `https://wiki.example.com`, commas between them."""
    log_format: Literal["auto", "console", "json"] = "auto"
    """How `serve` and `worker` log; `auto`: for people on a terminal, else JSON lines."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    test_embedder: Literal["", "fake"] = ""
    """For tests: `fake` takes the deterministic embedder instead of a model."""

    @property
    def origins(self) -> tuple[str, ...]:
        """`cors_origins`, one by one."""
        return tuple(origin.strip() for origin in self.cors_origins.split(",") if origin.strip())

    def shown(self) -> dict[str, str]:
        """Every setting as text, secrets masked, without those for tests."""
        return {
            item.name: _masked(item.name, getattr(self, item.name))
            for item in fields(self)
            if not item.name.startswith("test_")
        }


def load(
    environment: Mapping[str, str] | None = None, *, overrides: Mapping[str, object] | None = None
) -> Settings:
    """Read the settings; `overrides` win over the environment, which wins over the file.

    Raises:
        InvalidSetting: an unknown name or a wrong value; says which and where it was read.
    """
    environment = os.environ if environment is None else environment
    overrides = overrides or {}
    for name in overrides:
        _check_name(name, name)
    home = default_home({PREFIX + "HOME": str(overrides["home"])} if "home" in overrides else environment)
    from_file, from_environment = _from_file(home / FILE_NAME), _from_environment(environment)
    return _validated({**from_file, **from_environment, **overrides, "home": home})


def changed(settings: Settings, values: Mapping[str, object]) -> Settings:
    """These settings with other values of some. Raises InvalidSetting."""
    held = {item.name: getattr(settings, item.name) for item in fields(settings)}
    return _validated({**held, **values})


def default_home(environment: Mapping[str, str] | None = None) -> Path:
    """RAGSTONE_HOME, else the platform's folder for data; for root /var/lib/ragstone."""
    environment = os.environ if environment is None else environment
    if given := environment.get(PREFIX + "HOME", "").strip():
        return Path(given).expanduser().absolute()
    if sys.platform != "win32" and os.geteuid() == 0:
        return Path("/var/lib/ragstone")
    from platformdirs import user_data_path

    return user_data_path("ragstone", appauthor=False)


def user_language(environment: Mapping[str, str] | None = None) -> Language:
    """The language to speak: RAGSTONE_LANG, else `lang` of the file, else the locale; else English.

    Cheap, and never fails: what is wrong with the settings is said by `load`.
    """
    environment = os.environ if environment is None else environment
    chosen = environment.get(PREFIX + "LANG", "").strip().lower()
    if not chosen:
        with contextlib.suppress(InvalidSetting):
            chosen = str(_from_file(default_home(environment) / FILE_NAME).get("lang", ""))
    if chosen in ("", "auto"):
        chosen = next(
            (environment[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environment.get(name)), ""
        )
    return "zh" if chosen.lower().startswith("zh") else "en"


def _from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    values: dict[str, object] = {}
    for variable, value in environment.items():
        if variable.startswith(PREFIX) and variable not in _FOREIGN:
            name = variable.removeprefix(PREFIX).lower()
            _check_name(name, variable)
            if value.strip():
                values[name] = value.strip()
    return values


def _from_file(path: Path) -> dict[str, object]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):  # what is wrong with the home is said by the database
        return {}
    except (OSError, ValueError) as error:
        raise InvalidSetting("kb.settings_file", path=path, reason=error) from error
    for name in values:
        _check_name(name, f"{name} ({path})")
        if name == "home":
            raise InvalidSetting("kb.settings_home", path=path)
        if name in (*_SECRETS, "database_url", "vector_index_url", "redis_url") and _open_to_others(path):
            raise InvalidSetting("kb.settings_open", path=path, name=name)
    return values


def _open_to_others(path: Path) -> bool:
    return sys.platform != "win32" and bool(path.stat().st_mode & 0o077)


def read_passwords(path: str) -> tuple[str, ...]:
    """The passwords in a file, one a line. Blocks.

    Raises:
        InvalidSetting: it cannot be read, or others can read it.
    """
    if not path:
        return ()
    file = Path(path).expanduser()
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise InvalidSetting("kb.password_file", path=file, reason=type(error).__name__) from error
    if file.is_file() and _open_to_others(file):
        raise InvalidSetting("kb.password_open", path=file)
    return tuple(dict.fromkeys(line for line in text.splitlines() if line))


def _check_name(name: str, where: str) -> None:
    names = [item.name for item in fields(Settings)]
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        known = ", ".join(known for known in names if not known.startswith("test_"))
        raise InvalidSetting("kb.setting_unknown", name=where, near=near[0] if near else known)


def _validated(values: dict[str, object]) -> Settings:
    from pydantic import TypeAdapter, ValidationError

    try:
        settings = TypeAdapter(Settings).validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "?"
        shown = _masked(name, values.get(name, ""))
        reason = _expected(name) or first["msg"]
        raise InvalidSetting("kb.setting_value", name=name, value=shown, reason=reason) from error
    _check_ranges(settings)
    return settings


_RANGES: Mapping[str, tuple[float, float]] = {
    "chunk_size": (16, 8_192),
    "chunk_overlap": (0, 4_096),
    "chunk_parent": (0, 32_768),
    "top_k": (1, 1_000),
    "min_score": (0, 1),
    "min_score_short": (0, 1),
    "top_k_short": (1, 1_000),
    "top_k_medium": (1, 1_000),
    "short_length": (1, 1_000),
    "medium_length": (2, 10_000),
    "context_tokens": (100, 1_000_000),
    "max_answer_chars": (100, 10_000_000),
    "max_file_mb": (1, 10_000),
    "parse_workers": (1, 64),
    "parse_timeout": (1, 3_600),
    "parse_memory_mb": (256, 1_000_000),
    "web_max_pages": (1, 1_000_000),
    "port": (0, 65_535),
    "worker_concurrency": (0, 64),
    "lease_seconds": (1, 3_600),
    "embed_batch": (1, 2_048),
    "embed_max_tokens": (32, 1_000_000),
    "embed_threads": (0, 1_024),
    "chat_timeout": (1, 3_600),
    "chat_context": (512, 1_000_000),
    "rerank_top_n": (1, 250),
    "rerank_min_score": (-1_000, 1_000),
}


def _expected(name: str) -> str:
    """The values a setting may have, in signs that need no language."""
    if name in _RANGES:
        low, high = _RANGES[name]
        return f"{low:,} ... {high:,}"
    return " | ".join(repr(choice) for choice in get_args(get_type_hints(Settings).get(name)))


def _check_ranges(settings: Settings) -> None:
    for name, (low, high) in _RANGES.items():
        value = getattr(settings, name)
        if value is None:
            continue
        if not low <= value <= high:
            raise InvalidSetting("kb.setting_value", name=name, value=value, reason=_expected(name))
    if bool(settings.vector_index) != bool(settings.vector_index_url):
        raise InvalidSetting("kb.setting_pair", first="vector_index", second="vector_index_url")
    if settings.chat_model_file and settings.chat_base_url:
        raise InvalidSetting("kb.setting_either", first="chat_model_file", second="chat_base_url")
    for kind in ("chat", "embed"):
        if bool(getattr(settings, f"{kind}_base_url")) != bool(getattr(settings, f"{kind}_model")):
            raise InvalidSetting("kb.setting_pair", first=f"{kind}_base_url", second=f"{kind}_model")
    _check_rerank(settings)
    _check_origins(settings)
    _check_sizes(settings)


def _check_sizes(settings: Settings) -> None:
    if settings.chunk_overlap >= settings.chunk_size:
        raise InvalidSetting(
            "kb.setting_value",
            name="chunk_overlap",
            value=settings.chunk_overlap,
            reason=f"< chunk_size ({settings.chunk_size})",
        )
    if 0 < settings.chunk_parent <= settings.chunk_size:
        raise InvalidSetting(
            "kb.setting_value",
            name="chunk_parent",
            value=settings.chunk_parent,
            reason=f"0, > chunk_size ({settings.chunk_size})",
        )
    if settings.short_length >= settings.medium_length:
        reason = f"< medium_length ({settings.medium_length})"
        raise InvalidSetting(
            "kb.setting_value", name="short_length", value=settings.short_length, reason=reason
        )


def _check_origins(settings: Settings) -> None:
    for origin in settings.origins:
        if not _ORIGIN.fullmatch(origin):
            reason = "https://host[:port]"
            raise InvalidSetting("kb.setting_value", name="cors_origins", value=origin, reason=reason)


def _check_rerank(settings: Settings) -> None:
    """A kind needs what it asks with, and an address needs a kind: a reranker is never silently ignored."""
    needed: Mapping[str, tuple[str, ...]] = {
        "": (),
        "cohere": ("rerank_base_url", "rerank_model"),
        "dashscope": ("rerank_base_url", "rerank_model"),
        "tei": ("rerank_base_url",),
        "judge": ("chat_base_url",),
    }
    for name in needed[settings.rerank_kind]:
        if name == "chat_base_url" and settings.chat_model_file:
            continue
        if not getattr(settings, name):
            raise InvalidSetting("kb.setting_pair", first="rerank_kind", second=name)
    if settings.rerank_kind in ("", "judge") and settings.rerank_base_url:
        raise InvalidSetting("kb.setting_pair", first="rerank_base_url", second="rerank_kind")


def _masked(name: str, value: object) -> str:
    text = "" if value is None else str(value)
    if name in _SECRETS:
        return "********" if text else ""
    if name in _URLS and text:
        return masked_url(text)
    return text


def masked_url(url: str) -> str:
    """The address without its password, wherever that stands; also `key=value` words of libpq."""
    url = _SECRET_VALUE.sub(r"\1********", url)
    try:
        parts = urlsplit(url)
        if parts.password is None:
            return url
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "********"
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:********@{host}"))
