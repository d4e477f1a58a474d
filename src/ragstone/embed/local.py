"""Embeddings on this machine: multilingual-e5-small, int8, CTranslate2, CPU only.

Measured (benchmarks/results/embedding.md): small batches of texts of like length, each
on one thread, need the least CPU; the threads work on different batches.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast
from weakref import WeakValueDictionary

from anyio import CapacityLimiter, create_task_group, from_thread, to_thread

from ragstone.errors import MissingExtra, ModelUnavailable, TextTooLong
from ragstone.metadata import checked_texts
from ragstone.types import Vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragstone.embed.cache import Progress
    from ragstone.embed.tokens import UnigramTokenizer

QUERY_PREFIX = "query:"
DOCUMENT_PREFIX = "passage:"
MAX_THREADS = 8
"""More threads are used only when they are asked for: each holds its own work space."""

_BATCH_TOKENS = 640
"""Tokens of a batch with its padding. Above about 900, CPU time per token rises."""

_TEXTS_AT_ONCE = 64

MAX_TOKEN_VECTORS = 240
"""Tokens of a passage that are kept one by one, the rarest: 11.5 KB."""

MAX_QUESTION_TOKENS = 64
"""Tokens of a question that are compared, the rarest."""


class LocalEmbedder:
    """Implements `protocols.Embedder`. Open one with `await LocalEmbedder.open(folder)`.

    Embedders of one folder and thread count share one model in a process. All work is
    done in worker threads in steps of about 0.1 s, so that cancellation is answered and
    a question waits for one step of an ingest at most.
    """

    def __init__(self, model: LoadedModel) -> None:
        self._model: LoadedModel | None = model
        self._tokenizer = model.tokenizer
        self._dimension = model.dimension
        self._max_tokens = model.room(DOCUMENT_PREFIX)
        self._identity = model.identity
        self._threads = model.threads
        self._limiter = CapacityLimiter(model.threads)

    @classmethod
    async def open(
        cls, folder: Path, *, threads: int | None = None, on_progress: Progress | None = None
    ) -> LocalEmbedder:
        """Opens the model kept in `folder`; the first time it is converted (a few seconds, 135 MB).

        Args:
            folder: where converted models are kept.
            threads: batches worked on at once; default: one per CPU of this process, at most 8.
            on_progress: called from a worker thread with a message key (`embed.converting`,
                `embed.waiting`) and the part that is done, 0 to 1.

        Raises:
            MissingExtra: CTranslate2 is not installed.
            ModelUnavailable: no weights for this platform, or `folder` cannot be written.
        """
        if find_spec("ctranslate2") is None:
            raise MissingExtra("core.missing_extra", feature="LocalEmbedder", extra="local")
        model = await to_thread.run_sync(_OPEN.model, folder, threads or _default_threads(), on_progress)
        return cls(model)

    @property
    def identity(self) -> str:
        return self._identity

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def max_tokens(self) -> int:
        return self._max_tokens

    @property
    def tokenizer(self) -> UnigramTokenizer:
        return self._tokenizer

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        checked_texts(texts)
        ids = await self._ids(texts)
        room = self._open_model().room(QUERY_PREFIX)
        return await self._embed([tokens[:room] for tokens in ids], QUERY_PREFIX)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        checked_texts(texts)
        ids = await self._ids(texts)
        for index, tokens in enumerate(ids):
            if len(tokens) > self._max_tokens:
                raise TextTooLong(
                    "embed.text_too_long", index=index, tokens=len(tokens), limit=self._max_tokens
                )
        return await self._embed(ids, DOCUMENT_PREFIX)

    async def aclose(self) -> None:
        """Lets go of the model; its memory is freed with its last user."""
        self._model = None

    def _open_model(self) -> LoadedModel:
        if self._model is None:
            raise ModelUnavailable("embed.closed")
        return self._model

    async def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        self._open_model()
        ids: list[list[int]] = []
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            some = texts[start : start + _TEXTS_AT_ONCE]
            ids += await to_thread.run_sync(_all_ids, self._tokenizer, some, limiter=self._limiter)
        return ids

    async def _embed(self, ids: list[list[int]], prefix: str) -> Vectors:
        import numpy as np

        model = self._open_model()
        values = np.zeros((len(ids), self._dimension), dtype=np.float32)
        token_vectors: list[NDArray[np.generic]] = [model.no_tokens(prefix)] * len(ids)
        batches = _batches([len(tokens) for tokens in ids], model.fixed_tokens(prefix))

        async def work() -> None:
            for rows in batches:
                some = [ids[row] for row in rows]
                means, tokens = await to_thread.run_sync(model.embed, some, prefix, limiter=self._limiter)
                values[rows] = means
                for row, vectors in zip(rows, tokens, strict=True):
                    token_vectors[row] = vectors

        async with create_task_group() as tasks:
            for _ in range(self._threads):
                tasks.start_soon(work)
        read = sum(len(tokens) + model.fixed_tokens(prefix) for tokens in ids if tokens)
        return Vectors(model=self._identity, values=values, tokens=read, token_vectors=token_vectors)


def _default_threads() -> int:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, MAX_THREADS)


def _all_ids(tokenizer: UnigramTokenizer, texts: Sequence[str]) -> list[list[int]]:
    return [tokenizer.ids(text) for text in texts]


def _batches(lengths: list[int], fixed: int) -> Iterator[list[int]]:
    """Row numbers of texts of like length, longest first. Texts without tokens are in none."""
    order = sorted((row for row, length in enumerate(lengths) if length), key=lambda row: -lengths[row])
    start = 0
    while start < len(order):
        size = max(1, _BATCH_TOKENS // (lengths[order[start]] + fixed))
        yield order[start : start + size]
        start += size


class _Output(Protocol):
    last_hidden_state: object


class _Encoder(Protocol):
    def forward_batch(self, inputs: list[list[int]]) -> _Output: ...


class _OpenEncoder(Protocol):
    def __call__(
        self, folder: str, *, device: str, compute_type: str, inter_threads: int, intra_threads: int
    ) -> _Encoder: ...


class LoadedModel:
    """The encoder and its tokenizer in memory. Safe to share between threads and event loops."""

    def __init__(self, folder: Path, threads: int) -> None:
        import ctranslate2

        from ragstone.embed.axes import LanguageAxes
        from ragstone.embed.cache import IDENTITY
        from ragstone.embed.convert import read_tokenizer

        self.identity = IDENTITY
        self.threads = threads
        self.tokenizer, settings = read_tokenizer(folder)
        self.dimension = int(settings["dimension"])
        self._axes = LanguageAxes.read()
        self._positions = int(settings["positions"])
        self._ends = (int(settings["bos"]), int(settings["eos"]))
        self._prefixes = {prefix: self.tokenizer.ids(prefix) for prefix in (QUERY_PREFIX, DOCUMENT_PREFIX)}
        open_encoder = cast("_OpenEncoder", ctranslate2.Encoder)  # pyright: ignore[reportUnknownMemberType]
        self._encoder = open_encoder(
            str(folder), device="cpu", compute_type="int8", inter_threads=threads, intra_threads=1
        )

    def fixed_tokens(self, prefix: str) -> int:
        """Tokens that every text gets: beginning, prefix, end."""
        return len(self._prefixes[prefix]) + len(self._ends)

    def room(self, prefix: str) -> int:
        """Tokens left for a text."""
        return self._positions - self.fixed_tokens(prefix)

    def embed(
        self, ids: list[list[int]], prefix: str
    ) -> tuple[NDArray[np.float32], list[NDArray[np.generic]]]:
        """Of each text its unit vector, from the mean of the last layer, and its tokens.

        What the model adds for a text's language is taken away (`embed/axes.py`).
        """
        import numpy as np

        states = self.states(ids, prefix)
        first = self.fixed_tokens(prefix) - 1
        return self._axes.texts(np.stack([state.mean(axis=0) for state in states])), [
            self._token_vectors(state[first:-1], tokens, prefix)
            for state, tokens in zip(states, ids, strict=True)
        ]

    def states(self, ids: list[list[int]], prefix: str) -> list[NDArray[np.float32]]:
        """The last layer, text by text: (tokens with beginning, prefix and end, dimension)."""
        import numpy as np

        begin, end = self._ends
        inputs = [[begin, *self._prefixes[prefix], *tokens, end] for tokens in ids]
        states = np.asarray(self._encoder.forward_batch(inputs).last_hidden_state, dtype=np.float32)
        return [state[: len(tokens)] for state, tokens in zip(states, inputs, strict=True)]

    def no_tokens(self, prefix: str) -> NDArray[np.generic]:
        """What a blank text has of tokens."""
        import numpy as np

        return self._token_vectors(np.empty((0, self.dimension), np.float32), [], prefix)

    def _token_vectors(self, states: NDArray[np.float32], ids: list[int], prefix: str) -> NDArray[np.generic]:
        from ragstone.late import passage_tokens, question_tokens

        if prefix == QUERY_PREFIX:
            return question_tokens(self._axes.tokens(states[self.tokenizer.rarest(ids, MAX_QUESTION_TOKENS)]))
        return passage_tokens(self._axes.tokens(states[self.tokenizer.rarest(ids, MAX_TOKEN_VECTORS)]))


class OpenModels:
    """Which models this process has in memory, so that none is loaded twice.

    It owns no model: one that no embedder holds any more is freed, and opened anew when
    it is wanted again.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: WeakValueDictionary[tuple[Path, int], LoadedModel] = WeakValueDictionary()

    def model(self, folder: Path, threads: int, on_progress: Progress | None = None) -> LoadedModel:
        from ragstone.embed.cache import ensure_converted

        key = (folder.resolve(), threads)
        with self._lock:
            model = self._models.get(key)
            if model is None:
                target = ensure_converted(folder, on_progress, from_thread.check_cancelled)
                model = self._models[key] = LoadedModel(target, threads)
            return model


_OPEN = OpenModels()
