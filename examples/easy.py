"""Easy: point at a folder and ask. Needs `ragstone[kb]`; no key, no server, no download.

python examples/easy.py FOLDER "How wide will the strip of reeds be?" "出租车费能报销吗？"
"""

from __future__ import annotations

import sys

import ragstone


def main(folder: str, *questions: str) -> None:
    with ragstone.open() as kb:
        kb.add(folder)
        for question in questions:
            answer = kb.ask(question)
            print(answer.text)
            for citation in answer.citations:
                print(f"  [{citation.n}] {citation.title}: {citation.quote}")


if __name__ == "__main__":
    main(*sys.argv[1:])
