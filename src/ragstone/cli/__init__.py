"""The command line: thin commands over `ragstone.kb`. `run` is the entry point.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 nothing found, 130 stopped with Ctrl-C.
With `--json` standard output carries JSON and nothing else; a failure is
`{"error": {"code", "message"}}` there and a plain sentence on standard error. SIGTERM and
a closed terminal end a command as Ctrl-C does, with 128 and the number of the signal.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from importlib.util import find_spec
from types import FrameType

from ragstone.errors import MissingExtra

# Top-level packages of the extra `kb`; looked for, not imported.
_NEEDED = ("typer", "rich", "pydantic", "platformdirs", "psycopg", "psycopg_pool")


def run() -> None:
    """Run the command line of this process and exit."""
    _open_closed_streams()
    if "--debug" not in sys.argv:
        # What libraries log is no sentence for a person; every failure has one of ours.
        logging.getLogger().addHandler(logging.NullHandler())
    ending = _Ending()
    ending.install()
    try:
        if any(find_spec(name) is None for name in _NEEDED):
            sys.exit(_without_extra())
        from ragstone.cli.app import main

        code = main(sys.argv[1:])
    except KeyboardInterrupt:  # while the modules were loading
        code = 130
    sys.exit(ending.code or code)


class _Ending:
    """Signals that ask the process to end, taken as Ctrl-C is: what is under way is closed first.

    Left to themselves they would leave the database server running.
    """

    def __init__(self) -> None:
        self.code = 0

    def install(self) -> None:
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            # Ignored it stays ignored, as under nohup.
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._end)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.code = 128 + number
        interrupt = signal.getsignal(signal.SIGINT)
        if callable(interrupt) and interrupt is not signal.default_int_handler:
            interrupt(signal.SIGINT, frame)  # an event loop's: it cancels the running command
        else:
            # Not KeyboardInterrupt, which a conversation survives.
            sys.exit(self.code)


def _open_closed_streams() -> None:
    """Let what was closed before the start (`<&-`) read and write nothing.

    Otherwise the next file that is opened gets the number of the missing one, and output
    would go into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def _without_extra() -> int:
    from ragstone.kb.settings import user_language

    error = MissingExtra("core.missing_extra", feature="ragstone", extra="kb")
    sys.stderr.write(error.text(user_language()) + "\n")
    return 2
