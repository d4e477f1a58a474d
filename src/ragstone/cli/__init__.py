"""The command line: thin commands over `ragstone.kb`. `run` is the entry point.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 nothing found, 130 stopped with Ctrl-C.
With `--json` standard output carries JSON and nothing else; a failure is
`{"error": {"code", "message"}}` there and a plain sentence on standard error.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from ragstone.errors import MissingExtra

# Top-level packages of the extra `kb`; looked for, not imported.
_NEEDED = ("typer", "rich", "pydantic", "platformdirs", "psycopg", "psycopg_pool")


def run() -> None:
    """Run the command line of this process and exit."""
    try:
        if any(find_spec(name) is None for name in _NEEDED):
            sys.exit(_without_extra())
        from ragstone.cli.app import main

        code = main(sys.argv[1:])
    except KeyboardInterrupt:  # while the modules were loading
        code = 130
    sys.exit(code)


def _without_extra() -> int:
    from ragstone.kb.settings import user_language

    error = MissingExtra("core.missing_extra", feature="ragstone", extra="kb")
    sys.stderr.write(error.text(user_language()) + "\n")
    return 2
