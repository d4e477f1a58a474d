"""`ragstone demo`: sample documents, three questions, answers with sources that open."""

from __future__ import annotations

import sys
from importlib.resources import as_file, files
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from ragstone.cli.add import show_summary
from ragstone.cli.answers import show_remarks, show_sources
from ragstone.cli.options import Json
from ragstone.cli.progress import AddProgress, Notices
from ragstone.cli.session import with_bases
from ragstone.cli.shapes import answer_json
from ragstone.cli.terminal import Terminal
from ragstone.cli.words import say
from ragstone.kb.settings import load

if TYPE_CHECKING:
    from ragstone.kb.facade import KnowledgeBases
    from ragstone.types import Answer

BASE = "demo"
# English, Chinese, and Chinese about an English document.
QUESTIONS = (
    "How wide will the strip of reeds along the lake shore be?",
    "一线城市的住宿费每晚最多报销多少？",
    "Halm 到 Sund 的渡轮几点出发？",
)


def demo(as_json: Json = False) -> int:
    terminal = Terminal(as_json=as_json)
    notices = Notices(terminal)
    folder = copy_samples(load().home / "samples")

    async def work(bases: KnowledgeBases) -> list[tuple[str, Answer]]:
        result = await bases.add(folder, base=BASE, on_event=AddProgress(notices))
        notices.close()
        if not as_json:
            terminal.line(say("cli.demo_added", documents=len(result.files), folder=folder))
            if result.count("failed"):
                show_summary(terminal, BASE, result, sum(result.seconds.values()))
        answers: list[tuple[str, Answer]] = []
        for number, question in enumerate(QUESTIONS, 1):
            answer = await bases.ask(question, bases=[BASE])
            notices.close()
            if not as_json:
                _show(terminal, number, question, answer)
            answers.append((question, answer))
        if as_json:
            names = await bases.base_names()
            files = await bases.file_names(
                {hit.chunk.document_id: hit.uri for _, answer in answers for hit in answer.hits}
            )
            terminal.emit(
                {
                    "base": BASE,
                    "folder": str(folder),
                    "documents": len(result.files),
                    "answers": [answer_json(question, answer, names, files) for question, answer in answers],
                }
            )
        return answers

    answers = with_bases(terminal, work, notices=notices)
    unanswered = sum(not answer.answered for _, answer in answers)
    if not as_json:
        terminal.line()
        show_remarks(terminal, answers[-1][1])
        terminal.line(say("cli.demo_next", ragstone=own_name(sys.argv[0])))
    if unanswered:
        terminal.note(say("cli.demo_unanswered", count=unanswered), style="bold red")
    return 1 if unanswered else 0


def own_name(started_as: str) -> str:
    """What to write to start this program again: `make demo` starts it from outside the PATH."""
    return started_as if which("ragstone") is None and Path(started_as).name == "ragstone" else "ragstone"


def copy_samples(folder: Path) -> Path:
    """Put the sample documents into `folder`; files that are there stay as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    with as_file(files("ragstone.kb") / "samples") as source:
        for sample in sorted(source.iterdir()):
            target = folder / sample.name
            if sample.is_file() and not sample.name.startswith((".", "_")) and not target.exists():
                target.write_bytes(sample.read_bytes())
    return folder


def _show(terminal: Terminal, number: int, question: str, answer: Answer) -> None:
    terminal.line()
    terminal.line(say("cli.demo_question", number=number, question=question), style="bold cyan")
    terminal.line(answer.text)
    if answer.citations:
        terminal.line()
        show_sources(terminal, answer.citations, {})
