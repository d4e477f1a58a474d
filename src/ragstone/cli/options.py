"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, Optional, TypeAlias

import typer

from ragstone.cli.words import say

Json: TypeAlias = Annotated[bool, typer.Option("--json", help=say("cli.opt_json"))]
Base: TypeAlias = Annotated[
    Optional[str],  # noqa: UP045 (read by typer at run time)
    typer.Option("--base", "-b", metavar="NAME", help=say("cli.opt_base_one")),
]
Bases: TypeAlias = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--base", "-b", metavar="NAME", help=say("cli.opt_base_many")),
]
Filter: TypeAlias = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--filter", metavar="FILTER", help=say("cli.opt_filter")),
]
TopK: TypeAlias = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--top-k", "-k", metavar="N", help=say("cli.opt_top_k")),
]
Glob: TypeAlias = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--glob", "-g", metavar="GLOB", help=say("cli.opt_glob")),
]
Jobs: TypeAlias = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--jobs", "-j", metavar="N", help=say("cli.opt_jobs")),
]
PasswordFile: TypeAlias = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--password-file", metavar="FILE", help=say("cli.opt_password_file")),
]
Words: TypeAlias = Annotated[list[str], typer.Argument(metavar="QUESTION", help=say("cli.arg_question"))]
