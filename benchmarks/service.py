"""Least scores of `ragstone.recipes.service`: what each keeps of right passages and refuses of wrong ones.

    python benchmarks/service.py [FOLDER] [--sample 200] [--cache FOLDER]

Questions are asked of their own passages (kept: the right one is among the hits that reach the
least score) and of passages that cannot answer them (refused: no hit reaches it), on the scale
`late`, by the length of the question. Short questions are answers of up to 4 Chinese characters
asked as terms, of their own passages and of others that hold the term nowhere. Vectors are kept as
`retrieval.py` keeps them, and questions are those of `extractive.py`.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

import anyio
import numpy as np

from extractive import ANSWERABLE, OTHER, Question, Sets
from ragstone.confirm import core_term, effective
from ragstone.embed.local import LocalEmbedder
from ragstone.recipes import TOP_K
from ragstone.retrieve.store import StoreRetriever
from ragstone.types import Query
from retrieval import CACHE, SETS, KeptVectors

LEAST = [round(0.30 + 0.01 * step, 2) for step in range(28)]
TERMS = [("xquad_zh", "cmrc2018_trial"), ("cmrc2018_trial", "drcd_dev"), ("drcd_dev", "xquad_zh")]
GROUPS = ("short", "medium", "long", "long, other language")


def terms(sets: Sets, name: str) -> list[Question]:
    """Answers that are terms of up to four characters, each asked as a question."""
    found = {
        answer.strip(): question
        for question in sets.questions(name)
        for answer in question.answers[:1]
        if len(re.sub(r"\s", "", answer)) <= 4 and core_term(answer) and not answer.strip().isascii()
    }
    return [Question(answer, (), question.relevant) for answer, question in found.items()]


def group(question: Question, asked: str, of: str) -> str:
    length = len(re.sub(r"\s", "", question.text))
    if length <= TOP_K.medium_length:
        return "short" if length <= TOP_K.short_length else "medium"
    chinese = ("zh", "drcd", "cmrc")
    same = any(word in asked.replace("_to_en", "") for word in chinese) == any(word in of for word in chinese)
    crossed = "_to_" in asked or not same
    return "long, other language" if crossed else "long"


async def measure(sets: Sets, embedder: KeptVectors) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """(best score of a right passage, best score of any where none is right), by group; -1 for none."""
    right: dict[str, list[float]] = {name: [] for name in GROUPS}
    wrong: dict[str, list[float]] = {name: [] for name in GROUPS}

    async def ask(questions: list[Question], asked: str, of: str, answerable: bool) -> None:
        retrieve = StoreRetriever(store=await sets.store(of), embedder=embedder, top_k=TOP_K)
        for question in questions:
            query = Query(question.text)
            hits = await retrieve(query)
            name = group(question, asked, of)
            if answerable:
                scores = [hit.score for hit in hits if hit.uri in question.relevant]
                right[name].append(max(scores, default=-1.0))
            elif name != "short" or not effective(query, hits):
                wrong[name].append(max((hit.score for hit in hits), default=-1.0))

    for asked, of in ANSWERABLE.items():
        if "mixed" not in asked and "turn before" not in asked:
            await ask(sets.questions(asked), asked, of, True)
    for asked, of in OTHER:
        if "unanswerable" not in asked:
            await ask(sets.questions(asked), asked, of, False)
    for asked, of in TERMS:
        await ask(terms(sets, asked), asked, asked, True)
        await ask(terms(sets, asked), asked, of, False)
    return right, wrong


async def run(arguments: argparse.Namespace) -> None:
    models = Path(tempfile.gettempdir()) / "ragstone-bench"
    models.mkdir(exist_ok=True)
    embedder = KeptVectors(await LocalEmbedder.open(models, threads=1), arguments.cache / "vectors.sqlite")
    right, wrong = await measure(Sets(arguments.folder, arguments.sample, embedder), embedder)
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
    parser.add_argument("folder", type=Path, nargs="?", default=SETS)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--cache", type=Path, default=CACHE)
    anyio.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
