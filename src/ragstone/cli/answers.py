"""How an answer and its sources look in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ragstone.address import is_opened
from ragstone.audit import remarks
from ragstone.cli.shapes import degraded_text
from ragstone.cli.terminal import Terminal, shortened
from ragstone.cli.words import language, say
from ragstone.place import Place
from ragstone.types import MEMBER_MARK, Answer, Citation

QUOTE_LENGTH = 160
SHORT_ID = 12
"""Characters of an id that people are shown."""
UPLOADED = "sha256:"
"""An upload without an address of its own has that of its bytes, which opens nothing."""


def show_text(terminal: Terminal, answer: Answer, streamed: str = "") -> None:
    """The answer's text, where it was not streamed as it is."""
    if not streamed:
        show_whole(terminal, answer.text)
        return
    terminal.end_pieces()
    if not streamed.endswith("\n"):
        terminal.line()
    # Citation repair may have changed what was streamed.
    if streamed.strip() != answer.text.strip():
        terminal.note(say("cli.answer_repaired"))
        show_whole(terminal, answer.text)


def show_whole(terminal: Terminal, text: str) -> None:
    """A text with its Markdown tables drawn on a terminal; as it is for a program that reads it."""
    if not terminal.out.is_terminal:
        terminal.line(text)
        return
    terminal.piece(text)
    terminal.end_pieces()
    if not text.endswith("\n"):
        terminal.line()


def show_remarks(terminal: Terminal, answer: Answer, *, extractive: bool = True) -> None:
    """What the audit found, steps that could not be taken as configured, and that no chat model is set."""
    for sentence in remarks(answer.audit, language()):
        terminal.note(sentence, style="yellow")
    for code in answer.degraded:
        terminal.note(degraded_text(code), style="yellow")
    if (
        extractive
        and answer.answered
        and answer.mode == "extractive"
        and "chat_failed" not in answer.degraded
    ):
        terminal.note(say("cli.extractive"))


def show_sources(terminal: Terminal, citations: Sequence[Citation], files: Mapping[str, str]) -> None:
    """Each source once, with what was taken from it and an address that opens."""
    by_number: dict[int, list[Citation]] = {}
    for citation in citations:
        by_number.setdefault(citation.n, []).append(citation)
    for n, group in sorted(by_number.items()):
        first = group[0]
        terminal.line(f"[{n}] {place(first.title or first.uri, first.place)}", style="bold")
        for quote in dict.fromkeys(_quote(citation, first) for citation in group):
            terminal.line(quote, indent=4)
        name = files.get(first.document_id, "")
        show_address(terminal, first.uri, first.page, first.document_id, name=name, indent="    ")


def _quote(citation: Citation, first: Citation) -> str:
    """What was taken, with its place where that is another than the first one's."""
    quote = f"“{shortened(citation.quote, QUOTE_LENGTH)}”"
    return quote if citation.place == first.place else place(quote, citation.place)


def place(title: str, place: Place) -> str:
    """A title with its page, slide, sheet and row, or section."""
    return place.after(title, language())


def show_address(
    terminal: Terminal, uri: str, page: int | None, document_id: str, *, name: str = "", indent: str = ""
) -> None:
    """Where a passage stands: an address that opens, or of an upload its name and what shows it."""
    if uri.startswith(UPLOADED) or not is_opened(uri):
        shown = f"ragstone show {document_id[:SHORT_ID]}"
        terminal.line(f"{name}  ({shown})" if name else shown, indent=len(indent))
    else:
        terminal.link(local_path(uri), opening(uri, page), indent=indent)


def local_path(uri: str) -> str:
    """The path of a file: address, any other address as it is."""
    parts = urlsplit(uri)
    return str(Path(url2pathname(parts.path))) if parts.scheme == "file" else uri


def opening(uri: str, page: int | None) -> str:
    """The address to open: a PDF at its page; of what lies in a container, the container."""
    container, mark, _ = uri.partition(MEMBER_MARK)
    if mark and uri.startswith("file:"):
        return container
    return f"{uri}#page={page}" if page is not None and uri.lower().endswith(".pdf") else uri
