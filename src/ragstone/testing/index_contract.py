"""What every VectorIndex must do, as tests: subclass `VectorIndexContract` and give it an `index` fixture.

    class TestMyIndex(VectorIndexContract):
        @pytest.fixture
        async def index(self) -> AsyncIterator[VectorIndex]:
            index = await MyIndex.open("http://localhost:1234")
            yield index
            await index.aclose()

The index must find at once what was put. Each test has a collection of its own and
removes it. The tests run under the pytest plugin of anyio.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from ragstone.errors import ModelMismatch
from ragstone.protocols import VectorIndex

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
STRANGE = ("知识库", 'it\'s "b1"', "b1\\", '"] or base != "', "b1 ", "{b1}", "%", "🙂")


def rows(*vectors: Sequence[float]) -> NDArray[np.float32]:
    return np.array(vectors, dtype=np.float32)


def spread(count: int, dimension: int = 8, *, seed: int = 3) -> NDArray[np.float32]:
    """Unit vectors in all directions."""
    points = np.random.default_rng(seed).normal(size=(count, dimension))
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.anyio
class VectorIndexContract:
    """Putting, dropping, searching; row A27."""

    @pytest.fixture
    async def collection(self, index: VectorIndex) -> AsyncGenerator[str]:
        name = f"contract_{secrets.token_hex(6)}"
        yield name
        await index.clear(name)

    async def find(
        self,
        index: VectorIndex,
        collection: str,
        vector: Sequence[float],
        *,
        bases: Sequence[str] | None = None,
        top_k: int = 10,
    ) -> list[str]:
        return await index.search(collection, rows(vector)[0], bases=bases, top_k=top_k)

    async def test_what_was_put_is_found_by_cosine_and_no_more_than_asked(
        self, index: VectorIndex, collection: str
    ) -> None:
        await index.put(
            collection, ["x", "y", "xy", "-x"], rows(X, Y, (0.6, 0.8, 0), (-1, 0, 0)), bases=["b"] * 4
        )
        assert await self.find(index, collection, X) == ["x", "xy", "y", "-x"]
        assert await self.find(index, collection, Y, top_k=2) == ["y", "xy"]

    async def test_put_again_stands_in_place_of_the_first(self, index: VectorIndex, collection: str) -> None:
        """A27: one vector or many under ids of one's own; what is added again is replaced."""
        for _ in range(2):
            await index.put(collection, ["1", "2"], rows(X, Y), bases=["b", "b"])
        assert sorted(await self.find(index, collection, X)) == ["1", "2"]
        await index.put(collection, ["2", "1"], rows(X, Y), bases=["b", "c"])
        assert await self.find(index, collection, X) == ["2", "1"]
        assert await self.find(index, collection, X, bases=["c"]) == ["1"]

    async def test_an_id_twice_in_one_put_is_there_once(self, index: VectorIndex, collection: str) -> None:
        await index.put(collection, ["1", "2", "1"], rows(X, Z, Y), bases=["b", "b", "b"])
        assert sorted(await self.find(index, collection, X)) == ["1", "2"]
        assert await self.find(index, collection, Y, top_k=1) == ["1"]

    async def test_dropped_ids_are_gone_and_unknown_ones_are_passed_over(
        self, index: VectorIndex, collection: str
    ) -> None:
        """A27: one is removed, or all."""
        await index.drop(collection, ["nothing"])
        await index.put(collection, ["1", "2", "3"], rows(X, Y, Z), bases=["b"] * 3)
        for _ in range(2):
            await index.drop(collection, ["1", "unknown", "3"])
            assert await self.find(index, collection, X) == ["2"]
        await index.drop(collection, ["2"])
        assert await self.find(index, collection, X) == []
        await index.put(collection, ["1"], rows(X), bases=["b"])
        assert await self.find(index, collection, X) == ["1"]

    async def test_only_the_bases_that_were_asked_for_are_searched(
        self, index: VectorIndex, collection: str
    ) -> None:
        bases = ["b1", *STRANGE]
        ids = [f"id {n}" for n in range(len(bases))]
        await index.put(collection, ids, rows(*[X] * len(bases)), bases=bases)
        for chunk_id, base_id in zip(ids, bases, strict=True):
            assert await self.find(index, collection, X, bases=[base_id]) == [chunk_id]
        two = await self.find(index, collection, X, bases=[bases[1], bases[2], "nowhere"])
        assert sorted(two) == sorted(ids[1:3])
        assert await self.find(index, collection, X, bases=["nowhere"]) == []
        assert await self.find(index, collection, X, bases=[]) == []
        assert sorted(await self.find(index, collection, X, top_k=99)) == sorted(ids)

    async def test_ids_come_back_as_they_were_given(self, index: VectorIndex, collection: str) -> None:
        ids = [*STRANGE, "a" * 200, "0", "a\nb"]
        points = spread(len(ids))
        await index.put(collection, ids, points, bases=["b"] * len(ids))
        for chunk_id, point in zip(ids, points, strict=True):
            assert (await index.search(collection, point, bases=None, top_k=1)) == [chunk_id]
        await index.drop(collection, ids[1:])
        assert await index.search(collection, points[3], bases=None, top_k=20) == ids[:1]

    async def test_vectors_that_do_not_fit_are_refused(self, index: VectorIndex, collection: str) -> None:
        await index.put(collection, ["1"], rows(X), bases=["b"])
        nan, short = rows((float("nan"), 0, 0)), rows((1, 0))
        for vectors in (nan, short, rows(X, Y), rows((float("inf"), 0, 0))):
            with pytest.raises(ModelMismatch):
                await index.put(collection, ["2"], vectors, bases=["b"])
        for vectors in (nan, short):
            with pytest.raises(ModelMismatch):
                await index.search(collection, vectors[0], bases=None, top_k=3)
        assert await self.find(index, collection, X) == ["1"]

    async def test_a_zero_vector_stands_before_no_match(self, index: VectorIndex, collection: str) -> None:
        await index.put(collection, ["zero", "1", "2"], rows((0, 0, 0), X, (0.8, 0.6, 0)), bases=["b"] * 3)
        assert (await self.find(index, collection, X))[:2] == ["1", "2"]
        await index.put(collection, ["1"], rows((0, 0, 0)), bases=["b"])
        assert (await self.find(index, collection, X))[:1] == ["2"]

    async def test_two_thousand_vectors(self, index: VectorIndex, collection: str) -> None:
        points = spread(2_000)
        ids = [f"id{n}" for n in range(len(points))]
        await index.put(collection, ids, points, bases=[f"b{n % 20}" for n in range(len(points))])
        question = points[77]
        scores = {chunk_id: float(point @ question) for chunk_id, point in zip(ids, points, strict=True)}
        nearest = sorted(ids, key=lambda chunk_id: -scores[chunk_id])[:20]
        found = await index.search(collection, question, bases=None, top_k=20)
        assert len(set(found) & set(nearest)) >= 18
        few = await index.search(collection, question, bases=["b17"], top_k=10)
        assert few[0] == "id77"
        assert all(int(chunk_id.removeprefix("id")) % 20 == 17 for chunk_id in few)
        await index.drop(collection, ids[:1_000])
        found = await index.search(collection, question, bases=None, top_k=100)
        assert len(found) == 100
        assert all(int(chunk_id.removeprefix("id")) >= 1_000 for chunk_id in found)

    async def test_collections_are_apart_and_one_that_is_not_there_is_empty(
        self, index: VectorIndex, collection: str
    ) -> None:
        assert await self.find(index, collection, X) == []
        other = f"{collection}_2"
        await index.put(collection, ["1"], rows(X), bases=["b"])
        await index.put(other, ["1"], rows((1, 0)), bases=["b"])
        await index.drop(other, ["1"])
        assert await self.find(index, collection, X) == ["1"]
        await index.clear(other)
        await index.clear(other)
        await index.clear(collection)
        assert await self.find(index, collection, X) == []
        # Made anew it may have another dimension.
        await index.put(collection, ["1"], rows((1, 0)), bases=["b"])
        assert await index.search(collection, rows((1, 0))[0], bases=None, top_k=3) == ["1"]

    async def test_nothing_to_put_or_drop_is_no_error(self, index: VectorIndex, collection: str) -> None:
        await index.put(collection, [], np.zeros((0, 3), np.float32), bases=[])
        await index.drop(collection, [])
        assert await self.find(index, collection, X) == []
        assert index.identity
