"""Ranking, scope, filters, neighbours."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from ragstone.errors import (
    InvalidQuery,
    ModelMismatch,
)
from ragstone.filters import And, Compare, Equal, Filter, In, Not, Or, Present
from ragstone.fuse import hybrid
from ragstone.metadata import MetadataValue
from ragstone.protocols import Store
from ragstone.testing.store_contract.passages import (
    EVERYTHING,
    HALF,
    X,
    Y,
    Z,
    halves,
    passages,
    put,
    texts,
    vectors,
)
from ragstone.types import Hit, Scope


@pytest.mark.anyio
class SearchContract:
    """Ranking, scope, filters, neighbours."""

    async def test_vector_search_ranks_by_cosine(self, store: Store) -> None:
        """A28"""
        rows = [(1e5, 1e5, 0.0), X, Z, (-2.0, 0.0, 0.0)]
        await put(store, "u:1", "diagonal", "same", "across", "opposite", rows=rows)
        hits = await store.search_vector(vectors((3.0, 0.0, 0.0)), scope=EVERYTHING, top_k=10)
        assert texts(hits) == ["same", "diagonal", "across", "opposite"]
        assert [hit.score for hit in hits] == pytest.approx([1.0, 0.7071, 0.0, -1.0], abs=HALF)
        assert [(hit.scores[0].scale, hit.scores[0].rank) for hit in hits] == [
            ("cosine", rank) for rank in (1, 2, 3, 4)
        ]

    async def test_a05_only_the_direction_of_a_vector_counts(self, store: Store) -> None:
        rows = [(1e-30, 0.0, 0.0), (3e38, 0.0, 0.0), (0.0, 3e38, 3e38)]
        await put(store, "u:1", "tiny", "huge", "across", rows=rows)
        for length in (1e-30, 1.0, 3e38):
            hits = await store.search_vector(vectors((length, 0.0, 0.0)), scope=EVERYTHING, top_k=10)
            assert texts(hits) == ["tiny", "huge", "across"]
            assert [hit.score for hit in hits] == pytest.approx([1.0, 1.0, 0.0], abs=HALF)

    async def test_a_zero_vector_scores_nothing_and_comes_last(self, store: Store) -> None:
        rows = [(0.0, 0.0, 0.0), (-1.0, 0.0, 0.0), X]
        await put(store, "u:1", "blank", "opposite", "same", rows=rows)
        hits = await store.search_vector(vectors(X), scope=EVERYTHING, top_k=10)
        assert texts(hits) == ["same", "opposite", "blank"]
        assert hits[-1].score == 0.0
        assert await store.search_vector(vectors((0.0, 0.0, 0.0)), scope=EVERYTHING, top_k=10) == []

    async def test_equals_come_in_the_order_of_documents_and_chunks(self, store: Store) -> None:
        """C29: as many hits as were asked for, or all there are."""
        documents = [await put(store, f"u:{n}", "same words", "same words") for n in range(6)]
        expected = [(document.document_id, index) for document in documents for index in (0, 1)]
        for top_k in (1, 5, 12, 50):
            by_vector = await store.search_vector(vectors(X), scope=EVERYTHING, top_k=top_k)
            by_text = await store.search_text("words", scope=EVERYTHING, top_k=top_k)
            for hits in (by_vector, by_text):
                found = [(hit.chunk.document_id, hit.chunk.index) for hit in hits]
                assert found == expected[:top_k]

    @pytest.mark.parametrize("top_k", [0, -1, 1_001, True, 2.0, "3"])
    async def test_top_k_has_limits(self, store: Store, top_k: int) -> None:
        await put(store, "u:1", "alpha")
        with pytest.raises(InvalidQuery):
            await store.search_vector(vectors(X), scope=EVERYTHING, top_k=top_k)
        with pytest.raises(InvalidQuery):
            await store.search_text("alpha", scope=EVERYTHING, top_k=top_k)
        with pytest.raises(InvalidQuery):
            await store.search_hybrid(
                "alpha", vectors(X), scope=EVERYTHING, top_k=top_k, fuse=hybrid, candidates=9
            )
        with pytest.raises(InvalidQuery):
            await store.search_hybrid(
                "alpha", vectors(X), scope=EVERYTHING, top_k=9, fuse=hybrid, candidates=top_k
            )

    async def test_questions_that_cannot_be_compared_are_refused(self, store: Store) -> None:
        await put(store, "u:1", "alpha")
        for question in (vectors((1.0, 0.0)), vectors((float("nan"), 0.0, 0.0)), vectors(X, Y)):
            with pytest.raises(ModelMismatch):
                await store.search_vector(question, scope=EVERYTHING, top_k=3)

    async def test_a_base_of_another_model_is_named_or_passed_over(self, store: Store) -> None:
        await put(store, "u:1", "alpha", base_id="one")
        other = vectors((1.0, 0.0), model="other")
        with pytest.raises(ModelMismatch):
            await store.search_vector(other, scope=EVERYTHING, top_k=3)
        await put(store, "u:1", "beta", base_id="two", rows=[(1.0, 0.0)], model="other")
        assert texts(await store.search_vector(other, scope=EVERYTHING, top_k=3)) == ["beta"]
        assert texts(await store.search_vector(other, scope=Scope(bases=("two",)), top_k=3)) == ["beta"]
        with pytest.raises(ModelMismatch) as caught:
            await halves(store, "alpha", other, scope=Scope(bases=("one", "two")), top_k=3)
        assert "one" in str(caught.value)

    async def test_an_empty_store_has_no_hits(self, store: Store) -> None:
        assert await halves(store, "alpha", vectors(X), scope=EVERYTHING, top_k=3) == ([], [])
        assert await store.count(EVERYTHING) == 0

    async def test_no_bases_means_all_and_an_empty_list_means_none(self, store: Store) -> None:
        """A53, A32: several bases at once, one, every one; by decision 3 an empty list is nothing.

        Every chunk says its base; one of no base that was asked for is never found.
        """
        for base_id in ("one", "two", "three"):
            await put(store, "u:1", f"alpha {base_id}", base_id=base_id)
        expected = {
            None: 3,
            (): 0,
            ("one",): 1,
            ("one", "three"): 2,
            ("nowhere",): 0,
            ("\x00",): 0,
            ("one", "one"): 1,
        }
        for bases, count in expected.items():
            scope = Scope(bases=bases)
            nearest, matching = await halves(store, "alpha", vectors(X), scope=scope, top_k=9)
            found = (len(nearest), len(matching), await store.count(scope))
            assert all(bases is None or hit.base_id in bases for hit in (*nearest, *matching))
            assert found == (count, count, count), bases

    async def test_the_filter_works_inside_the_search(self, store: Store) -> None:
        """W06, C33, D10: before the best are taken, so that none that fits is lost behind others."""
        for n in range(40):
            await put(store, f"u:{n}", "alpha alpha", metadata={"kind": "near"})
        await put(store, "u:far", "alpha and other words", rows=[Y], metadata={"kind": "far"})
        scope = Scope(filter=Equal("kind", "far"))
        nearest, matching = await halves(store, "alpha", vectors(X), scope=scope, top_k=3)
        assert texts(nearest) == texts(matching) == ["alpha and other words"]
        assert await store.count(scope) == 1

    async def test_a_filter_holds_over_many_documents(self, store: Store) -> None:
        """C32, C29: over a hundred documents and values, an empty list, a key that no row has."""
        for n in range(130):
            await put(store, f"u:{n:03d}", "alpha", metadata={"n": n})
        many = tuple(range(5, 125))
        for asked, count in ((In("n", many), 120), (In("n", ()), 0), (Equal("no row has this", 1), 0)):
            scope = Scope(filter=asked)
            nearest, matching = await halves(store, "alpha", vectors(X), scope=scope, top_k=1_000)
            assert len(nearest) == len(matching) == await store.count(scope) == count
            some = await store.search_vector(vectors(X), scope=scope, top_k=7)
            assert len(some) == min(7, count)

    @pytest.mark.parametrize(
        ("filter", "expected"),
        [
            (Equal("n", 1), "int float list"),
            (Equal("n", 1.0), "int float list"),
            (Equal("n", True), "bool"),
            (Equal("n", "1"), "text"),
            (Equal("n", 2), "list"),
            (Equal("n", datetime(2024, 1, 1, tzinfo=UTC)), "date"),
            (Equal("n", datetime(2024, 1, 1, 8, tzinfo=timezone(timedelta(hours=8)))), "date"),
            (Equal("n", datetime(2024, 1, 1)), ""),
            (Equal("n", "2024-01-01T00:00:00.000000Z"), ""),
            (Equal("n", '{"$datetime": "2024-01-01T00:00:00.000000Z"}'), ""),
            (Equal("n", float("nan")), ""),
            (Equal("n", float("inf")), ""),
            (Equal("n", "\x00"), ""),
            (Equal("n", "\ud800"), ""),
            (Equal("\x00", 1), ""),
            (Equal("no such key", 1), ""),
            (Equal("n' OR true --", 1), ""),
            (Equal('a"b\\c.d%s{}', "x'); DROP TABLE chunks --"), "hostile"),
            (And(Equal("n", 1), Equal("m", "both")), "list"),
            (And(And(Equal("n", 1), Equal("n", 2)), Equal("m", "both")), "list"),
            (Or(Equal("n", 1), Equal("n", "1")), "int float list text"),
            (Not(Equal("n", 1)), "bool text date hostile other bare"),
            (Compare("n", ">", 1), "list"),
            (Compare("n", "<=", 1), "int float list"),
            (Not(Compare("n", ">", 1)), "int float bool text date hostile other bare"),
            (Compare("n", ">=", ""), "text"),
            (Compare("n", "<", datetime(2024, 1, 2, tzinfo=UTC)), "date"),
            (Compare("n", "<", datetime(2024, 1, 2)), ""),
            (Compare("n", ">=", False), "bool"),
            (In("n", (2, "1", True)), "list text bool"),
            (In("n", ()), ""),
            (Not(In("n", (1, float("nan")))), "bool text date hostile other bare"),
            (Present("n"), "int float bool text list date"),
            (Not(Present("\x00")), "int float bool text list date hostile other bare"),
            (Compare('a"b\\c.d%s{}', ">=", "x')"), "hostile"),
        ],
    )
    async def test_filters_mean_the_same_in_every_store(
        self, store: Store, filter: Filter, expected: str
    ) -> None:
        """A46, A47, C32"""
        rows: dict[str, dict[str, MetadataValue]] = {
            "int": {"n": 1},
            "float": {"n": 1.0},
            "bool": {"n": True},
            "text": {"n": "1"},
            "list": {"n": (2, 1), "m": "both"},
            "date": {"n": datetime(2024, 1, 1, tzinfo=UTC)},
            "hostile": {'a"b\\c.d%s{}': "x'); DROP TABLE chunks --"},
            "other": {"m": "both"},
            "bare": {},
        }
        for name, metadata in rows.items():
            await put(store, f"u:{name}", name, metadata=metadata)
        scope = Scope(filter=filter)
        nearest = await store.search_vector(vectors(X), scope=scope, top_k=20)
        assert sorted(texts(nearest)) == sorted(expected.split())
        assert await store.count(scope) == len(expected.split())

    async def test_text_search_finds_shared_terms_in_both_languages(self, store: Store) -> None:
        """A51, W31, C24, C25: Chinese by pairs of characters, so that no word list can miss a word."""
        lines = ["The cat sat on the mat.", "大熊猫主要吃竹子", "Ｄｅｒ ＫＡＴＺＥ", "unrelated words"]
        await put(store, "u:1", *lines)
        for question, expected in {
            "CAT": [lines[0]],
            "竹子": [lines[1]],
            "熊猫": [lines[1]],
            "katze": [lines[2]],
            "the": [],
            "nothing here": [],
            "": [],
            "?!' & | ! <-> :* \\": [],
            "\x00cat": [lines[0]],
        }.items():
            hits = await store.search_text(question, scope=EVERYTHING, top_k=5)
            assert texts(hits) == expected, question
            assert all(hit.score > 0 and hit.scores[-1].scale == "text" for hit in hits)

    async def test_text_search_finds_other_forms_scripts_and_part_numbers(self, store: Store) -> None:
        """A51, W31, C24: stems, both Chinese scripts, part numbers and addresses; a score is 0 to 1."""
        lines = [
            "The installations were finished in May.",
            "臺灣的鐵路發展",
            "Order AB-1203/7 today",
            "AB 1203, not 7",
            "Written in C++ by ann@example.org",
            "The letter C",
        ]
        await put(store, "u:1", *lines)
        for question, first in {
            "installation": lines[0],
            "铁路": lines[1],
            "台湾": lines[1],
            "AB-1203/7": lines[2],
            "ab1203-7": lines[2],
            "c++": lines[4],
            "ann@example.org": lines[4],
        }.items():
            hits = await store.search_text(question, scope=EVERYTHING, top_k=5)
            assert texts(hits)[0] == first, question
            assert 0 < hits[0].score <= 1

    async def test_a_text_score_is_the_share_of_what_the_words_could_reach(self, store: Store) -> None:
        """A51, W25: the scale `text` means the same for every question."""
        await put(store, "u:1", "alpha beta gamma delta", "alpha epsilon zeta eta", *["filler words"] * 20)
        whole = (await store.search_text("alpha beta gamma delta", scope=EVERYTHING, top_k=1))[0].score
        part = (await store.search_text("alpha unknown words missing", scope=EVERYTHING, top_k=1))[0].score
        assert 0 < part < whole / 2 < 0.5

    async def test_both_stores_score_by_the_same_formula(self, store: Store) -> None:
        """A51"""
        await put(store, "u:1", "alpha alpha alpha beta", "alpha " * 30 + "gamma", "beta gamma")
        hits = await store.search_text("alpha beta", scope=EVERYTHING, top_k=5)
        # By hand: k1 1.2, b 0.75, three chunks of 4, 31 and 2 terms; both words are in two of them.
        mean, idf = 37 / 3, 1.0
        norms = [1.2 * (0.25 + 0.75 * length / mean) for length in (4, 31, 2)]
        expected = [
            (idf * 3 / (3 + norms[0]) + idf * 1 / (1 + norms[0])) / 2,
            idf * 30 / (30 + norms[1]) / 2,
            idf * 1 / (1 + norms[2]) / 2,
        ]
        assert [hit.score for hit in hits] == pytest.approx(sorted(expected, reverse=True), abs=1e-3)

    async def test_rare_words_weigh_more_than_common_ones(self, store: Store) -> None:
        """A51, C29: as many hits as were asked for, ranked without gaps."""
        for n in range(20):
            await put(store, f"u:{n}", "common words everywhere")
        await put(store, "u:rare", "zebra elsewhere")
        hits = await store.search_text("common zebra", scope=EVERYTHING, top_k=21)
        assert texts(hits)[0] == "zebra elsewhere"
        assert len(hits) == 21
        assert [hit.scores[0].rank for hit in hits] == list(range(1, 22))

    async def test_a_text_score_tells_nothing_of_other_bases(self, store: Store) -> None:
        """Whether a word stands in a base that is not searched moves no score."""
        await put(store, "u:1", "merger of alpha", "alpha beta", base_id="a")
        scope = Scope(bases=("a",))
        questions = ("merger", "alpha", "merger alpha", "redundancy beta")

        async def scores() -> list[list[float]]:
            found = [await store.search_text(text, scope=scope, top_k=5) for text in questions]
            return [[hit.score for hit in hits] for hits in found]

        alone = await scores()
        for n in range(5):
            await put(store, f"b:{n}", "merger redundancy", "a longer passage of other words", base_id="b")
            assert await scores() == alone

    async def test_equal_copies_come_by_address_place_and_age_of_the_base(self, store: Store) -> None:
        """Never by an id that was drawn: the same files give the same order in every home."""
        for base_id in ("zz-older", "aa-younger"):
            for uri in ("u:2", "u:1"):
                await put(store, uri, "alpha", "alpha", rows=[X, X], base_id=base_id)
        expected = [
            (uri, index, base_id)
            for uri in ("u:1", "u:2")
            for index in (0, 1)
            for base_id in ("zz-older", "aa-younger")
        ]
        found = [
            await store.search_text("alpha", scope=EVERYTHING, top_k=8),
            await store.search_vector(vectors(X), scope=EVERYTHING, top_k=8),
            await store.search_hybrid(
                "alpha", vectors(X), scope=EVERYTHING, top_k=8, fuse=hybrid, candidates=8
            ),
        ]
        for hits in found:
            assert [(hit.uri, hit.chunk.index, hit.base_id) for hit in hits] == expected

    async def test_context_is_searched_but_is_not_the_text(self, store: Store) -> None:
        await put(store, "u:1", "alpha", context="Chapter on penguins")
        (hit,) = await store.search_text("penguins", scope=EVERYTHING, top_k=5)
        assert (hit.chunk.text, hit.chunk.context) == ("alpha", "Chapter on penguins")

    async def test_a_passage_longer_than_full_text_holds_is_still_stored(self, store: Store) -> None:
        text = " ".join(f"word{n}" for n in range(120_000)) + " " + "x" * 5_000 + " 词" * 300
        await put(store, "u:1", text)
        assert len(await store.search_text("word7", scope=EVERYTHING, top_k=5)) == 1

    async def test_a_hybrid_search_is_both_searches(self, store: Store) -> None:
        """A52: both rankings of one question."""
        await put(store, "u:1", "alpha", "beta", "alpha beta", rows=[X, Y, Z])
        question = vectors((0.9, 0.3, 0.1))
        nearest, matching = await halves(store, "beta", question, scope=EVERYTHING, top_k=2)
        assert nearest == await store.search_vector(question, scope=EVERYTHING, top_k=2)
        assert matching == await store.search_text("beta", scope=EVERYTHING, top_k=2)
        assert texts(nearest) == ["alpha", "beta"]
        assert sorted(texts(matching)) == ["alpha beta", "beta"]

    async def test_a_hybrid_search_gives_the_best_of_both_with_their_passages(self, store: Store) -> None:
        """A52: fused by ids and scores; the best are whole, as any other search gives them."""
        await put(store, "u:1", "alpha", "beta", "alpha beta", rows=[X, Y, Z], context="of u:1")
        question = vectors((0.9, 0.3, 0.1))
        hits = await store.search_hybrid(
            "beta", question, scope=EVERYTHING, top_k=2, fuse=hybrid, candidates=3, compared=3
        )
        assert sorted(texts(hits)) == ["alpha", "beta"]
        assert [hit.with_scores(()) for hit in hits] == await store.fetch(
            [hit.chunk.chunk_id for hit in hits]
        )
        scales = {hit.chunk.text: [score.scale for score in hit.scores] for hit in hits}
        assert scales == {"alpha": ["cosine", "hybrid"], "beta": ["cosine", "text", "hybrid"]}

    async def test_the_best_are_compared_token_by_token(self, store: Store) -> None:
        """A52: of those fused, only as many as were asked for; a passage without tokens is like the mean."""
        document, chunks = passages("u:1", "one", "two", "three", "four")
        signs = [np.full((2, 1), kept, np.uint8) for kept in (0b000_00000, 0b111_00000, 0b010_00000)]
        stored = replace(vectors(X, X, X, Y), token_vectors=[*signs, np.empty((0, 1), np.uint8)])
        assert await store.replace(document, chunks, stored)
        question = replace(vectors(X), token_vectors=[np.array([[0.6, 0.5, 0.6]], np.float32)])

        async def found(compared: int) -> list[Hit]:
            return await store.search_hybrid(
                "?", question, scope=EVERYTHING, top_k=2, fuse=hybrid, candidates=4, compared=compared
            )

        assert texts(await found(0)) == ["one", "two"]
        assert texts(await found(2)) == ["two", "one"]
        assert texts(await found(4)) == ["two", "three"]
        assert [score.scale for score in (await found(4))[0].scores] == ["cosine", "hybrid", "late"]

    async def test_fetch_keeps_the_order_and_leaves_out_what_is_missing(self, store: Store) -> None:
        _, chunks = passages("u:1", "alpha", "beta", "gamma")
        await put(store, "u:1", "alpha", "beta", "gamma")
        wanted = [chunks[2].chunk_id, "missing", "\x00", chunks[0].chunk_id]
        assert texts(await store.fetch(wanted)) == ["gamma", "alpha"]
        assert await store.fetch([]) == []

    async def test_neighbours_are_those_of_the_same_document(self, store: Store) -> None:
        _, chunks = passages("u:1", *"abcde")
        await put(store, "u:0", "z", "y")
        await put(store, "u:1", *"abcde")
        await put(store, "u:2", "x", "w")
        assert texts(await store.neighbours(chunks[1].chunk_id, 2)) == ["a", "b", "c", "d"]
        assert texts(await store.neighbours(chunks[4].chunk_id, 1)) == ["d", "e"]
        assert texts(await store.neighbours(chunks[2].chunk_id, 0)) == ["c"]
        assert await store.neighbours("missing", 3) == []
        with pytest.raises(InvalidQuery):
            await store.neighbours(chunks[0].chunk_id, -1)
