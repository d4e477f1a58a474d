"""An embedder without a model: texts that share words are similar."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING

import anyio.lowlevel

from ragstone.errors import TextTooLong
from ragstone.late import passage_tokens, question_tokens
from ragstone.metadata import checked_texts
from ragstone.types import Vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_TOKEN = re.compile(rf"[{_HAN}]|[^\W_{_HAN}]+|[^\w\s]|_")
_WORD = re.compile(rf"[{_HAN}]+|[^\W_{_HAN}]+")
_HAN_RUN = re.compile(rf"[{_HAN}]+")
_PREFIX_LENGTH = 5


class WordTokenizer:
    """A Chinese character, a word of another script, or a punctuation mark is one token."""

    def count(self, text: str) -> int:
        return sum(1 for _ in _TOKEN.finditer(text))

    def offsets(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in _TOKEN.finditer(text)]


class FakeEmbedder:
    """Hashes words and Chinese character bigrams into a vector; the same on every machine.

    Words are folded (NFKC, lower case) and also count by their first five letters, so
    that "install" and "installation" are near each other. `batches` holds the texts of
    each call in order; `texts_embedded` is all of them, so that a test can say what was
    sent to the model. Blank texts are never "sent". With `token_vectors` each word is a
    token of its own, as of a model whose vectors serve late interaction.
    """

    def __init__(
        self, *, dimension: int = 64, max_tokens: int = 500, identity: str = "", token_vectors: bool = False
    ) -> None:
        self._dimension = dimension
        self._max_tokens = max_tokens
        self._identity = identity or f"fake/{dimension}"
        self._token_vectors = token_vectors
        self.batches: list[list[str]] = []
        self.closed = False

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
    def tokenizer(self) -> WordTokenizer:
        return WordTokenizer()

    @property
    def calls(self) -> int:
        """How many calls had something to embed."""
        return len(self.batches)

    @property
    def texts_embedded(self) -> list[str]:
        """Every text that was embedded, in order."""
        return [text for batch in self.batches for text in batch]

    async def embed_queries(self, texts: Sequence[str]) -> Vectors:
        checked_texts(texts)
        return self._embed(texts, question_tokens)

    async def embed_documents(self, texts: Sequence[str]) -> Vectors:
        checked_texts(texts)
        # As a model does, which waits: a long document would keep the event loop until its end.
        await anyio.lowlevel.checkpoint()
        for index, text in enumerate(texts):
            tokens = self.tokenizer.count(text)
            if tokens > self._max_tokens:
                raise TextTooLong("embed.text_too_long", index=index, tokens=tokens, limit=self._max_tokens)
        return self._embed(texts, passage_tokens)

    async def aclose(self) -> None:
        self.closed = True

    def _embed(
        self, texts: Sequence[str], kept: Callable[[NDArray[np.float32]], NDArray[np.generic]]
    ) -> Vectors:
        import numpy as np

        sent = [text for text in texts if text.strip()]
        if sent:
            self.batches.append(sent)
        values = np.zeros((len(texts), self._dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            values[row] = self._vector(text)
        return Vectors(
            model=self._identity,
            values=values,
            tokens=sum(self.tokenizer.count(text) for text in sent),
            token_vectors=[kept(self._words(text)) for text in texts] if self._token_vectors else (),
        )

    def _words(self, text: str) -> NDArray[np.float32]:
        import numpy as np

        words = [self._vector(match.group()) for match in _WORD.finditer(text)]
        return np.array(words, dtype=np.float32).reshape(-1, self._dimension)

    def _vector(self, text: str) -> NDArray[np.float32]:
        import numpy as np

        vector = np.zeros(self._dimension, dtype=np.float64)
        for feature, weight in _features(text):
            hashed = int.from_bytes(
                blake2b(feature.encode("utf-8", "replace"), digest_size=8).digest(), "big"
            )
            vector[hashed % self._dimension] += weight if hashed >> 63 else -weight
        norm = float(np.linalg.norm(vector))
        if norm == 0.0 and text.strip():
            vector[0] = norm = 1.0
        return (vector / norm if norm else vector).astype(np.float32)


def _features(text: str) -> list[tuple[str, float]]:
    features: list[tuple[str, float]] = []
    for match in _WORD.finditer(unicodedata.normalize("NFKC", text).lower()):
        word = match.group()
        if _HAN_RUN.fullmatch(word):
            features += [(character, 0.3) for character in word]
            features += [(first + second, 1.0) for first, second in pairwise(word)]
        else:
            features += [(word, 1.0), (word[:_PREFIX_LENGTH] + "*", 0.5)]
    return features
