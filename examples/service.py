"""A knowledge-base service: short questions, rewriting with a way back to the question, refusals.

python examples/service.py
"""

from __future__ import annotations

import anyio

from ragstone import Query
from ragstone.recipes import service
from ragstone.testing import FakeEmbedder
from ragstone.testing.chat import FakeChatModel as Says
from sample_documents import stored

QUESTIONS = {
    "年假": ("公司规定的年假天数", "每年十天 [1]。"),
    "试用期有多长？": ("员工试用期的长度", "三个月 [1]。"),
    # Like 年假 in meaning, but no passage holds it: refused, without asking for an answer.
    "产假": ("公司规定的产假天数", "never said"),
    # "go" is not in "good", and C++ is a word.
    "C++": ("programming in C++", "never said"),
}


async def main() -> None:
    embedder = FakeEmbedder()
    store = await stored(embedder)
    for question, (reworded, said) in QUESTIONS.items():
        answer = await service(store, embedder, Says(reworded, said)).ask(Query(question))
        print(question, "->", answer.text if answer.answered else "no answer")


if __name__ == "__main__":
    anyio.run(main)
