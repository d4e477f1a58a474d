"""The embedder for tests: deterministic, similar for shared words, and it tells what it was sent."""

from __future__ import annotations

import numpy as np
import pytest

from ragstone.errors import TextTooLong
from ragstone.protocols import Embedder
from ragstone.testing import FakeEmbedder

pytestmark = pytest.mark.anyio


async def test_texts_that_share_words_are_nearer_than_texts_that_do_not() -> None:
    embedder: Embedder = FakeEmbedder()
    texts = ["how to install the printer", "Installation of a printer", "苹果树在春天开花", "春天的苹果树"]
    values = (await embedder.embed_documents(texts)).values
    similar = values @ values.T
    assert similar[0, 1] > 0.3 > abs(similar[0, 2])
    assert similar[2, 3] > 0.3 > abs(similar[3, 1])


async def test_vectors_are_unit_length_and_the_same_for_queries_and_documents() -> None:
    embedder = FakeEmbedder(dimension=32)
    documents = await embedder.embed_documents(["one text", "?!"])
    queries = await embedder.embed_queries(["one text", "?!"])
    assert documents.dimension == embedder.dimension == 32
    assert documents.model == embedder.identity == "fake/32"
    assert documents.values.dtype == np.float32
    np.testing.assert_array_equal(documents.values, queries.values)
    np.testing.assert_allclose(np.linalg.norm(documents.values, axis=1), 1.0, rtol=1e-6)


async def test_blank_text_is_a_zero_vector_and_is_not_counted_as_embedded() -> None:
    embedder = FakeEmbedder()
    vectors = await embedder.embed_documents(["a", " \n", "b"])
    assert not vectors.values[1].any()
    assert embedder.texts_embedded == ["a", "b"]
    assert embedder.calls == 1
    await embedder.embed_documents([" "])
    assert embedder.calls == 1


async def test_a_text_beyond_the_limit_is_named() -> None:
    with pytest.raises(TextTooLong, match=r"Text 1 has 4 tokens"):
        await FakeEmbedder(max_tokens=3).embed_documents(["a b", "a b c d"])


def test_tokens_are_chinese_characters_words_and_marks() -> None:
    tokenizer = FakeEmbedder().tokenizer
    text = "RAG 检索，version_2!"
    assert [text[start:end] for start, end in tokenizer.offsets(text)] == [
        "RAG",
        "检",
        "索",
        "，",
        "version",
        "_",
        "2",
        "!",
    ]
    assert tokenizer.count(text) == 8
