"""What the command line writes: text for people, or JSON for machines.

Text of documents never controls the terminal: escape sequences in it are made visible.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, TextIO, cast

from ragstone.cli.tables import Table, TableReader

if TYPE_CHECKING:
    from rich.console import Console

# Wide enough that no line of a table is folded when another program reads it.
_PIPE_WIDTH = 4_000


class Terminal:
    """Standard output and standard error of one command.

    `as_json` keeps everything but JSON off standard output.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self._tables = TableReader()
        prepare(sys.stdout, utf8=as_json)
        prepare(sys.stderr)

    @property
    def streams(self) -> bool:
        """Whether a person watches standard output as it comes."""
        return not self.as_json and sys.stdout.isatty()

    @cached_property
    def out(self) -> Console:
        return _console(sys.stdout)

    @cached_property
    def err(self) -> Console:
        return _console(sys.stderr)

    def line(
        self, text: str = "", *, style: str = "", indent: int = 0, marked: Iterable[tuple[int, int]] = ()
    ) -> None:
        """A line of the result, folded between words on a terminal. Not for `--json`.

        `marked` are stretches of a text without line ends that stand out on a terminal.
        """
        _write(self.out, text, style=style, indent=indent, marked=marked)

    def piece(self, text: str) -> None:
        """A piece of an answer, shown at once; a Markdown table is drawn when its last row is there."""
        for part in self._tables.feed(text):
            self._part(part)

    def end_pieces(self) -> None:
        """Show what is held of the pieces."""
        for part in self._tables.finish():
            self._part(part)

    def _part(self, part: str | Table) -> None:
        if isinstance(part, str):
            sys.stdout.write(visible(part))
            sys.stdout.flush()
        else:
            self.table(part.rows, header=part.header)

    def note(self, text: str, *, style: str = "dim") -> None:
        """A remark beside the result: on standard error."""
        sys.stdout.flush()
        _write(self.err, text, style=style)

    def link(self, text: str, address: str, *, indent: str = "") -> None:
        """A line that opens `address` where the terminal can open links."""
        from rich.text import Text

        line = Text(indent)
        line.append(visible(text), style=f"link {address}" if self.out.is_terminal else "")
        self.out.print(line, soft_wrap=True)

    def table(self, rows: Iterable[Sequence[str]], *, header: Sequence[str] = (), indent: int = 0) -> None:
        """Columns; as wide as they need to be when another program reads them."""
        from rich.table import Table as Drawn

        table = Drawn(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(header))
        for name in header:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*(" " * indent * (not index) + visible(cell) for index, cell in enumerate(row)))
        if self.out.is_terminal:
            self.out.print(table)
        else:
            with self.out.capture() as captured:
                self.out.print(table)
            sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))

    def emit(self, value: Mapping[str, object]) -> None:
        """One JSON object on a line of its own."""
        sys.stdout.write(as_json(value) + "\n")
        sys.stdout.flush()

    def fail(self, code: str, message: str) -> None:
        """A sentence on standard error; with `--json` also an error object on standard output."""
        sys.stdout.flush()
        sys.stderr.write(f"ragstone: {visible(message)}\n")
        if self.as_json:
            self.emit({"error": {"code": code, "message": message}})


def prepare(stream: TextIO, *, utf8: bool = False) -> None:
    """Never fail on a character the terminal cannot show; JSON is UTF-8 in every locale."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is None:
        return
    # In JSON the \\udcff that stands for a byte that is no UTF-8 is a valid escape.
    if utf8:
        reconfigure(encoding="utf-8", errors="backslashreplace")
    else:
        reconfigure(errors="backslashreplace")


def as_json(value: Mapping[str, object]) -> str:
    """JSON without NaN or infinity (they become null), times in ISO 8601."""
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)


def _plain(value: object) -> object:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case datetime():
            return value.isoformat()
        case Mapping():
            pairs = cast("Mapping[object, object]", value)
            return {str(name): _plain(item) for name, item in pairs.items()}
        case Iterable():
            return [_plain(item) for item in cast("Iterable[object]", value)]
        case _:
            item = getattr(value, "item", None)  # a number of numpy
            return _plain(item()) if callable(item) else str(value)


def visible(text: str) -> str:
    """The text without characters that control a terminal; tabs and line ends stay."""
    if text.isprintable():
        return text
    return "".join(
        char if char in "\n\t" or not _controls(char) else "\ufffd" for char in text.replace("\r\n", "\n")
    )


def _controls(char: str) -> bool:
    # C0, DEL, C1, and the marks that turn the direction of what follows.
    code = ord(char)
    return code < 0x20 or 0x7F <= code < 0xA0 or 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069


def shortened(text: str, length: int) -> str:
    """The text on one line, cut at `length` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def _write(
    console: Console,
    text: str,
    *,
    style: str = "",
    indent: int = 0,
    marked: Iterable[tuple[int, int]] = (),
) -> None:
    if not text:
        console.print()  # padding of nothing would be nothing, not an empty line
    elif console.is_terminal:
        from rich.padding import Padding
        from rich.text import Text

        shown = Text(visible(text), style=style)
        for start, end in marked:
            shown.stylize("bold", start, end)
        console.print(Padding(shown, (0, 0, 0, indent), expand=False))
    else:
        console.print(" " * indent + visible(text), soft_wrap=True)


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    class Unhidden(Console):
        def on_broken_pipe(self) -> None:
            """Leave the error to the edge of the program, which knows the exit code."""
            raise  # called while the error is being handled

    width = None if stream.isatty() else _PIPE_WIDTH
    return Unhidden(file=stream, highlight=False, markup=False, emoji=False, width=width)
