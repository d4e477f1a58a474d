"""Least scores of `ragstone.recipes.service`: what each keeps of right passages and refuses of wrong ones.

    python benchmarks/service.py --data ../shared/data/retrieval [--sample 150]

Questions are asked of their own passages (kept: the right one is among the hits that reach the
least score) and of passages that cannot answer them (refused: no hit reaches it), on the scale
`hybrid`, by the length of the question. Short questions are answers of up to 4 Chinese characters
asked as terms, of their own passages and of others that hold the term nowhere. Vectors are kept as
`extractive.py` keeps them.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

import anyio
import numpy as np

from extractive import ANSWERABLE, UNANSWERABLE, Data, KeptEmbedder, Question, filled
from ragstone.confirm import core_term, effective
from ragstone.embed.local import LocalEmbedder
from ragstone.recipes import TOP_K
from ragstone.retrieve.store import StoreRetriever
from ragstone.store.memory import MemoryStore
from ragstone.types import Query

LEAST = [round(0.34 + 0.01 * step, 2) for step in range(15)]
TERMS = [("xquad_zh", "cmrc2018_trial"), ("cmrc2018_trial", "drcd_dev"), ("drcd_dev", "xquad_zh")]
GROUPS = ("short", "medium", "long", "long, other language")


def terms(data: Data, name: str) -> list[Question]:
    """Answers that are terms of up to four characters, each asked as a question."""
    found = {
        answer.strip(): question
        for question in data.questions(name)
        for answer in question.answers[:1]
        if len(re.sub(r"\s", "", answer)) <= 4 and core_term(answer) and not answer.strip().isascii()
    }
    return [Question(answer, [], question.relevant) for answer, question in found.items()]


def group(question: Question, asked: str, of: str) -> str:
    length = len(re.sub(r"\s", "", question.text))
    if length <= TOP_K.medium_length:
        return "short" if length <= TOP_K.short_length else "medium"
    chinese = ("zh", "drcd", "cmrc")
    same = any(word in asked.replace("_to_en", "") for word in chinese) == any(word in of for word in chinese)
    crossed = asked in ("xquad_zh_to_en", "xquad_en_to_zh") or not same
    return "long, other language" if crossed else "long"


async def measure(
    data: Data, embedder: KeptEmbedder
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """(best score of a right passage, best score of any where none is right), by group; -1 for none."""
    right: dict[str, list[float]] = {name: [] for name in GROUPS}
    wrong: dict[str, list[float]] = {name: [] for name in GROUPS}
    stores: dict[str, MemoryStore] = {}

    async def ask(questions: list[Question], asked: str, of: str, answerable: bool) -> None:
        if of not in stores:
            stores[of] = await filled(data, of, embedder)
            embedder.save()
        retrieve = StoreRetriever(store=stores[of], embedder=embedder, top_k=TOP_K)
        for question in questions:
            query = Query(question.text)
            hits = await retrieve(query)
            name = group(question, asked, of)
            if answerable:
                scores = [hit.score for hit in hits if hit.uri in question.relevant]
                right[name].append(max(scores, default=-1.0))
            elif name != "short" or not effective(query, hits):
                wrong[name].append(max((hit.score for hit in hits), default=-1.0))
        embedder.save()

    for asked, of in ANSWERABLE:
        await ask(data.questions(asked), asked, of, True)
    for asked, of in UNANSWERABLE:
        if "unanswerable" not in asked:
            await ask(data.questions(asked), asked, of, False)
    for asked, of in TERMS:
        await ask(terms(data, asked), asked, asked, True)
        await ask(terms(data, asked), asked, of, False)
    return right, wrong


async def run(arguments: argparse.Namespace) -> None:
    data = Data(arguments.data, arguments.sample)
    kept = Path(tempfile.gettempdir()) / "ragstone-bench"
    kept.mkdir(exist_ok=True)
    embedder = KeptEmbedder(await LocalEmbedder.open(kept, threads=1), kept / "service.npz")
    right, wrong = await measure(data, embedder)
    print("| least score |", " | ".join(f"{name}: kept / refused" for name in GROUPS), "|")
    print("|---" * (len(GROUPS) + 1) + "|")
    counts = (f"{sum(s >= 0 for s in right[name])} found / {len(wrong[name])} asked" for name in GROUPS)
    print("| questions |", " | ".join(counts), "|")
    for least in LEAST:
        cells: list[str] = []
        for name in GROUPS:
            found = np.array([score for score in right[name] if score >= 0])
            others = np.array(wrong[name])
            cells.append(f"{(found >= least).mean():.3f} / {(others < least).mean():.3f}")
        print(f"| {least:.2f} |", " | ".join(cells), "|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sample", type=int, default=150)
    anyio.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
