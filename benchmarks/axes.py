"""What the local model adds to a vector for its language: makes src/ragstone/embed/e5.npy.

    python benchmarks/axes.py FOLDER [--models FOLDER] [--out FILE]

FOLDER holds mtrag_un (English) and cmrc2018_trial (Chinese); their passages are embedded, their
questions not looked at. Three rows: the direction from the mean Chinese to the mean
English passage, the mean of all tokens, and the direction from Chinese to English tokens.
Changing the file changes every vector: raise `IDENTITY` in embed/cache.py with it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragstone.clean import clean
from ragstone.embed.axes import unit
from ragstone.embed.cache import ensure_converted
from ragstone.embed.local import DOCUMENT_PREFIX, LoadedModel
from ragstone.evaluate import Passage, read_dataset
from ragstone.split import RecursiveSplitter
from ragstone.types import Document

SETS = ("mtrag_un", "cmrc2018_trial")


def texts(model: LoadedModel, passages: Sequence[Passage]) -> list[str]:
    """The passages' chunks, as they are embedded."""
    split = RecursiveSplitter(max_size=300, overlap=30, tokenizer=model.tokenizer, context_size=48)
    documents = [Document(text=item.text, title=item.title, uri=item.corpus_id) for item in passages]
    return [chunk.embedding_text for document in documents for chunk in split(clean(document))]


def means(model: LoadedModel, texts: Sequence[str]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The mean of the texts' unit vectors, and of their tokens'."""
    whole = np.zeros(model.dimension, np.float64)
    tokens = np.zeros(model.dimension, np.float64)
    count = 0
    for text in texts:
        ids = model.tokenizer.ids(text)
        (states,) = model.states([ids], DOCUMENT_PREFIX)
        own = unit(states[model.fixed_tokens(DOCUMENT_PREFIX) - 1 : -1])
        whole += unit(states.mean(axis=0))
        tokens += own.sum(axis=0)
        count += len(own)
    return (whole / len(texts)).astype(np.float32), (tokens / count).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", type=Path, default=Path(tempfile.gettempdir()) / "ragstone-bench")
    parser.add_argument("--out", type=Path, default=Path("e5.npy"))
    options = parser.parse_args()
    model = LoadedModel(ensure_converted(options.models), threads=1)
    sets = [read_dataset(options.folder / name) for name in SETS]
    found = [means(model, texts(model, data.passages)) for data in sets]
    (english, english_tokens), (chinese, chinese_tokens) = found
    rows = [
        unit(english - chinese),
        (english_tokens + chinese_tokens) / 2,
        unit(english_tokens - chinese_tokens),
    ]
    np.save(options.out, np.stack(rows).astype(np.float32))


if __name__ == "__main__":
    main()
