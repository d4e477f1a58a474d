"""`ragstone chat`: questions one after the other, each knowing those before.

The main thread reads and prints; the knowledge bases work behind the blocking face. So
Ctrl-C reaches whatever the person sees: an answer that runs, or the prompt.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from ragstone.cli.answers import show_remarks, show_sources, show_text
from ragstone.cli.options import Bases, Filter, Json, TopK
from ragstone.cli.progress import Notices, StillWaiting
from ragstone.cli.shapes import answer_json
from ragstone.cli.terminal import Terminal
from ragstone.cli.words import say, told
from ragstone.errors import RagstoneError
from ragstone.memory import turn, window
from ragstone.types import Answer, Message

if TYPE_CHECKING:
    from ragstone.kb.facade import KnowledgeBases
    from ragstone.sync import Blocking


def chat(base: Bases = None, filter: Filter = None, top_k: TopK = None, as_json: Json = False) -> int:
    from ragstone.kb.facade import KnowledgeBases
    from ragstone.sync import Blocking

    terminal = Terminal(as_json=as_json)
    notices = Notices(terminal)
    with Blocking(lambda: KnowledgeBases.open(on_notice=notices)) as bases:
        try:
            conversation = _Conversation(
                terminal, notices, bases, {"bases": base, "filter": filter, "top_k": top_k}
            )
            conversation.run()
        finally:
            notices.close()
    return conversation.code


class _Conversation:
    """What was said so far, and how the next line is taken."""

    def __init__(
        self,
        terminal: Terminal,
        notices: Notices,
        bases: Blocking[KnowledgeBases],
        options: dict[str, Any],
    ) -> None:
        self._terminal = terminal
        self._notices = notices
        self._bases = bases
        self._options = options
        self._history: tuple[Message, ...] = ()
        self._last: Answer | None = None
        self._typed = sys.stdin.isatty() and sys.stdout.isatty()
        self._remark_due = True
        self._failed = False

    @property
    def code(self) -> int:
        """1 when a question of a pipe failed; a person has seen it."""
        return int(self._failed and not self._typed)

    def run(self) -> None:
        if self._typed:
            with suppress(ImportError):
                import_module("readline")  # gives input() a history
            self._terminal.line(say("cli.chat_hello"), style="dim")
        stopped = False
        while True:
            try:
                line = self._read()
                if line is None or line == "/exit":
                    return
                self._take(line)
                stopped = False
            except KeyboardInterrupt:
                if not self._typed:
                    raise
                self._notices.close()
                self._terminal.line()
                if stopped:
                    self._terminal.note(say("cli.chat_goodbye"))
                    return
                stopped = True
                self._terminal.note(say("cli.chat_stopped"))

    def _read(self) -> str | None:
        """The next line that is typed or piped in; None at its end."""
        if not self._typed:
            line = sys.stdin.readline()
            return line.strip() if line else None
        try:
            return input("> ").strip()
        except EOFError:
            return None

    def _take(self, line: str) -> None:
        if line.startswith("/"):
            self._command(line)
        elif line:
            self._answer(line)

    def _command(self, line: str) -> None:
        match line:
            case "/clear":
                self._history, self._last = (), None
                self._say(say("cli.chat_cleared"))
            case "/sources":
                if self._last is None or not self._last.citations:
                    self._say(say("cli.chat_no_sources"))
                elif not self._terminal.as_json:
                    show_sources(self._terminal, self._last.citations, self._files(self._last))
            case _:
                self._say(say("cli.chat_unknown", name=line))

    def _say(self, text: str) -> None:
        self._terminal.note(text)

    def _answer(self, question: str) -> None:
        pieces: list[str] = []
        try:
            answer = self._stream(question, pieces)
        except RagstoneError as error:
            self._remember(turn(question, "".join(pieces), whole=False))
            self._notices.close()
            self._terminal.fail(error.code, told(error))
            self._failed = True
            return
        except KeyboardInterrupt:
            # The next question may be about what was stopped.
            self._remember(turn(question, "".join(pieces), whole=False))
            raise
        self._remember(turn(question, answer.text))
        self._last = answer
        if self._terminal.as_json:
            names = cast("dict[str, str]", self._bases.base_names())
            self._terminal.emit(answer_json(question, answer, names, self._files(answer)))
            return
        show_remarks(self._terminal, answer, extractive=self._remark_due)
        self._remark_due = self._remark_due and answer.mode != "extractive"
        if answer.citations:
            self._terminal.line()
            show_sources(self._terminal, answer.citations, self._files(answer))
        self._terminal.line()

    def _files(self, answer: Answer) -> dict[str, str]:
        documents = {hit.chunk.document_id: hit.uri for hit in answer.hits}
        return cast("dict[str, str]", self._bases.file_names(documents))

    def _remember(self, messages: tuple[Message, ...]) -> None:
        self._history = window((*self._history, *messages))

    def _stream(self, question: str, pieces: list[str]) -> Answer:
        """The answer; what came of it before is in `pieces`."""
        with (
            StillWaiting(self._terminal) as waiting,
            self._bases.ask(question, history=self._history, stream=True, **self._options) as stream,
        ):
            for piece in stream:
                waiting.stop()
                self._notices.close()
                pieces.append(piece)
                if self._terminal.streams:
                    self._terminal.piece(piece)
            answer = cast("Answer", stream.answer)
        self._notices.close()
        if not self._terminal.as_json:
            show_text(self._terminal, answer, "".join(pieces) if self._terminal.streams else "")
        return answer
