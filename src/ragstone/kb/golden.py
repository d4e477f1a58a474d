"""Questions with known answers that a new generation must pass before it takes over."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from ragstone.evaluate import Dataset, means, measures, ranking
from ragstone.protocols import Embedder
from ragstone.retrieve.store import StoreRetriever
from ragstone.store.generations import Generation
from ragstone.store.postgres import PostgresStore
from ragstone.types import Hit, Query, Scope

MARGIN = 0.01
"""How much recall@10 may fall."""


@dataclass(frozen=True)
class Golden:
    """Asks both generations; a reason when recall@10 falls by more than `margin`.

    The ids in `dataset.relevant` are uris of documents, or file names. A generation of
    another model than `embedder` is asked by words alone, as searches ask it now.
    """

    store: PostgresStore
    embedder: Embedder
    dataset: Dataset
    margin: float = MARGIN

    async def __call__(self, before: Generation, after: Generation) -> str | None:
        old, new = await self.recall(before), await self.recall(after)
        return None if new >= old - self.margin else f"recall@10 {old:.3f} -> {new:.3f}"

    async def recall(self, generation: Generation) -> float:
        """recall@10 of the generation over all questions."""
        view = self.store.of_generation(generation.generation_id)
        scope = Scope(bases=(generation.base_id,))
        wanted = {item for found in self.dataset.relevant.values() for item in found}
        rankings: dict[str, list[str]] = {}

        def corpus_id(hit: Hit) -> str:
            return hit.uri if hit.uri in wanted else unquote(hit.uri.rpartition("/")[2])

        for question in self.dataset.questions:
            if not question.text.strip():
                rankings[question.query_id] = []
                continue
            query = Query(question.text, history=question.history, scope=scope)

            async def search(top_k: int, query: Query = query) -> list[Hit]:
                return await StoreRetriever(store=view, embedder=self.embedder, top_k=top_k)(query)

            rankings[question.query_id] = await ranking(search, corpus_id)
        return means(measures(rankings, self.dataset.relevant))["recall@10"]
