"""The root command: finds a command's module when the command runs, and turns errors into exit codes."""

from __future__ import annotations

import difflib
import errno
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from ragstone.cli.terminal import Terminal, prepare
from ragstone.cli.words import language, say, told
from ragstone.errors import InputError, NotFound, RagstoneError


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: where its function is, and the keys of the sentences that describe it."""

    module: str
    function: str
    about: str
    help: str


# The order is the order of `ragstone --help`.
COMMANDS = {
    "demo": Entry("demo", "demo", "cli.about_demo", "cli.help_demo"),
    "add": Entry("add", "add", "cli.about_add", "cli.help_add"),
    "sync": Entry("sync", "sync", "cli.about_sync", "cli.help_sync"),
    "ask": Entry("ask", "ask", "cli.about_ask", "cli.help_ask"),
    "chat": Entry("chat", "chat", "cli.about_chat", "cli.help_chat"),
    "search": Entry("search", "search", "cli.about_search", "cli.help_search"),
    "list": Entry("bases", "list_documents", "cli.about_list", "cli.help_list"),
    "show": Entry("documents", "show", "cli.about_show", "cli.help_show"),
    "rm": Entry("bases", "remove", "cli.about_rm", "cli.help_rm"),
    "parse": Entry("documents", "parse", "cli.about_parse", "cli.help_parse"),
    "verify-deleted": Entry("bases", "verify_deleted", "cli.about_verify_deleted", "cli.help_verify_deleted"),
    "reindex": Entry("reindex", "reindex", "cli.about_reindex", "cli.help_reindex"),
    "serve": Entry("serve", "serve", "cli.about_serve", "cli.help_serve"),
    "key": Entry("key", "key", "cli.about_key", "cli.help_key"),
    "worker": Entry("worker", "worker", "cli.about_worker", "cli.help_worker"),
    "eval": Entry("eval", "evaluate", "cli.about_eval", "cli.help_eval"),
    "doctor": Entry("doctor", "doctor", "cli.about_doctor", "cli.help_doctor"),
    "config": Entry("config", "config", "cli.about_config", "cli.help_config"),
}
# What typer itself writes into a help page, by the key of the sentence that replaces it.
_FRAME = {
    "Usage: ": "cli.frame_usage",
    "Arguments:": "cli.frame_arguments",
    "Options:": "cli.frame_options",
    "Commands:": "cli.frame_commands",
    "Show this message and exit.": "cli.frame_help",
    "[required]": "cli.frame_required",
    "[default: ": "cli.frame_default",
}


class PlainCommand(TyperCommand):
    """A command whose help page is in the user's language."""

    def get_help(self, ctx: typer.Context) -> str:  # type: ignore[override]
        return _polished(super().get_help(ctx))


class Commands(TyperGroup):
    """The commands of `COMMANDS`; a module is imported when its command is run."""

    def get_help(self, ctx: typer.Context) -> str:  # type: ignore[override]
        return _polished(super().get_help(ctx))

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return list(COMMANDS)

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]
        if cmd_name not in COMMANDS:
            return None
        entry = COMMANDS[cmd_name]
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        body = _body(entry.about, entry.help)
        register = single.command(cmd_name, cls=PlainCommand, help=body)
        register(getattr(import_module(f"ragstone.cli.{entry.module}"), entry.function))
        return typer.main.get_command(single)

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        with formatter.section("Commands"):
            formatter.write_dl([(name, say(entry.about)) for name, entry in COMMANDS.items()])

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            if near:
                raise InputError("cli.near_command", name=args[0], near=near[0])
            raise InputError("cli.no_command", name=args[0])
        return super().resolve_command(ctx, args)


def main(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; nothing is raised."""
    prepare(sys.stdout)
    prepare(sys.stderr)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = arguments[:end]
    terminal = Terminal(as_json="--json" in options)
    try:
        # --debug is taken anywhere, because it is added to a command that has just failed.
        code = _invoke([item for item in options if item != "--debug"] + list(arguments[end:]))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        # A terminal has just shown ^C at the start of the line.
        sys.stderr.write("\n" * sys.stderr.isatty())
        sys.stderr.write(
            say("cli.stopped_add" if {"add", "sync"} & set(arguments[:2]) else "cli.stopped") + "\n"
        )
        return 130
    except Exception as error:  # noqa: BLE001 (the edge of the program)
        if _broken_pipe(error):
            return _leave_quietly()
        if "--debug" in options:
            import traceback

            traceback.print_exc()
        if _unwritable(error):
            _discard(sys.stdout)
        code, name, message = _verdict(error)
        try:
            terminal.fail(name, message)
        except BrokenPipeError:
            return _leave_quietly()
        return code


def _invoke(arguments: Sequence[str]) -> int:
    root = typer.main.get_command(_root())
    try:
        with root.make_context("ragstone", list(arguments)) as context:
            result = root.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    return result if isinstance(result, int) else 0


def _root() -> typer.Typer:
    body = _body("cli.about", "cli.help")
    app = typer.Typer(cls=Commands, add_completion=False, rich_markup_mode=None)
    app.callback(help=body, invoke_without_command=True)(_options)
    return app


def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help=say("cli.opt_version"))] = False,
    debug: Annotated[bool, typer.Option("--debug", help=say("cli.opt_debug"))] = False,
) -> None:
    del debug  # taken by `main`; it stands here for the help page
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"ragstone {installed('ragstone')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


def _verdict(error: Exception) -> tuple[int, str, str]:
    """Exit code, a name for machines, and the sentence."""
    match error:
        case RagstoneError(key="kb.nothing_to_add"):
            return 3, error.code, told(error)
        case InputError():
            return 2, error.code, told(error)
        case NotFound():
            return 3, error.code, told(error)
        case RagstoneError():
            return 1, error.code, told(error)
        case typer.TyperException():
            return error.exit_code, "cli.usage", _usage(error)
        case typer.Abort():
            return 1, "cli.aborted", say("cli.aborted")
        case OSError() if error.filename and error.strerror:
            return 1, "cli.system", say("cli.system", path=error.filename, reason=error.strerror)
        case OSError() if _unwritable(error):
            return 1, "cli.output", say("cli.output", reason=error.strerror)
        case _:
            return 1, "cli.unexpected", say("cli.unexpected", kind=type(error).__name__, reason=error)


_NO_NUMBER = {
    "Input should be a valid integer": "cli.usage_integer",
    "Input should be a valid number": "cli.usage_number",
}


def _usage(error: typer.TyperException) -> str:
    """What typer found wrong, with the help page to read."""
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "ragstone")
    parameter = getattr(error, "param", None)
    name = "/".join(getattr(parameter, "opts", ())) or getattr(error, "option_name", "")
    if getattr(parameter, "param_type_name", "") == "argument":
        name = getattr(parameter, "metavar", "") or name
    match type(error).__name__:
        case "MissingParameter":
            return say("cli.usage_missing", name=name, command=command)
        case "NoSuchOption":
            near = ", ".join(sorted(getattr(error, "possibilities", None) or ()))
            return say(
                "cli.usage_near" if near else "cli.usage_option", name=name, near=near, command=command
            )
        case "BadParameter":
            return say("cli.usage_value", name=name, reason=_reason(error), command=command)
        case _:
            return say("cli.usage", reason=error.format_message().rstrip("."), command=command)


def _reason(error: typer.TyperException) -> str:
    """What is wrong with a value, in the user's language where typer has English alone."""
    if choice := re.search(r"is not one of (.+?)\.?$", error.message):
        return say("cli.usage_choice", choices=choice[1].replace("'", ""))
    for start, key in _NO_NUMBER.items():
        if error.message.startswith(start):
            return say(key)
    return error.message.removeprefix("Value error, ").rstrip(".")


def _body(about: str, details: str) -> str:
    """A help text for typer; \\b keeps the lines of a paragraph as they are written."""
    return "\n\n\b\n".join([say(about), *say(details).split("\n\n")])


def _polished(page: str) -> str:
    """A help page without typer's marks for types, in the user's language."""
    page = re.sub(r"\{([A-Z]+)\}", r"\1", page).replace(" <list[str]>", "").replace(" <str>", "")
    # The types took room, so that a mark was put on a line of its own.
    page = re.sub(r"\n +\[required\]", "  [required]", page)
    if language() == "en":
        return page
    for typed, key in _FRAME.items():
        page = page.replace(typed, say(key))
    return page


def _broken_pipe(error: Exception) -> bool:
    """Whether the reader of our output has gone; a pipe inside the program is another matter."""
    if sys.platform == "win32":  # where a closed pipe is EINVAL, and cannot be asked
        return getattr(error, "errno", None) in (errno.EPIPE, errno.EINVAL)
    if not isinstance(error, BrokenPipeError):
        return False
    import select

    ends = select.poll()
    for stream in (sys.stdout, sys.stderr):
        ends.register(stream.fileno(), 0)
    return any(state & (select.POLLERR | select.POLLHUP) for _, state in ends.poll(0))


def _unwritable(error: Exception) -> bool:
    """Whether a write failed, most likely that of the output: of an open file no name is known."""
    kinds = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
    return isinstance(error, OSError) and error.filename is None and error.errno in kinds


def _leave_quietly() -> int:
    """Whoever read our output has gone, as with `| head`; what a shell reports then is 141."""
    _discard(sys.stdout, sys.stderr)
    return 141


def _discard(*streams: TextIO) -> None:
    """What is left in the buffers goes nowhere, so that the interpreter does not complain at its end."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(devnull, stream.fileno())
