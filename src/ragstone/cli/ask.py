"""`ragstone ask`: one question, one answer with its sources."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ragstone.cli.answers import show_remarks, show_sources, show_text
from ragstone.cli.options import Bases, Filter, Json, TopK, Words
from ragstone.cli.progress import Notices, StillWaiting
from ragstone.cli.session import with_bases
from ragstone.cli.shapes import answer_json
from ragstone.cli.terminal import Terminal
from ragstone.types import Answer

if TYPE_CHECKING:
    from ragstone.kb.facade import KnowledgeBases


def ask(
    question: Words, base: Bases = None, filter: Filter = None, top_k: TopK = None, as_json: Json = False
) -> int:
    terminal = Terminal(as_json=as_json)
    notices = Notices(terminal)
    text = read_question(question)

    async def work(bases: KnowledgeBases) -> tuple[Answer, dict[str, str]]:
        if terminal.streams:
            answer = await _stream(bases, text)
            return answer, await _files(bases, answer)
        with StillWaiting(terminal):
            answer = await bases.ask(text, bases=base, filter=filter, top_k=top_k)
        notices.close()
        if as_json:
            files = await _files(bases, answer)
            terminal.emit(answer_json(text, answer, await bases.base_names(), files))
            return answer, files
        show_text(terminal, answer)
        return answer, await _files(bases, answer)

    async def _files(bases: KnowledgeBases, answer: Answer) -> dict[str, str]:
        return await bases.file_names({hit.chunk.document_id: hit.uri for hit in answer.hits})

    async def _stream(bases: KnowledgeBases, text: str) -> Answer:
        stream = bases.ask(text, bases=base, filter=filter, top_k=top_k, stream=True)
        pieces: list[str] = []
        with StillWaiting(terminal) as waiting:
            try:
                async for piece in stream:
                    waiting.stop()
                    notices.close()
                    terminal.piece(piece)
                    pieces.append(piece)
            finally:
                await stream.aclose()
        notices.close()
        assert stream.answer is not None  # the last event of every stream
        show_text(terminal, stream.answer, "".join(pieces))
        return stream.answer

    answer, files = with_bases(terminal, work, notices=notices)
    if not as_json:
        show_remarks(terminal, answer)
        if answer.citations:
            terminal.line()
            show_sources(terminal, answer.citations, files)
    return 0 if answer.answered else 3


def read_question(words: list[str]) -> str:
    """The question of the command line; `-` stands for standard input."""
    return sys.stdin.read().strip() if words == ["-"] else " ".join(words)
