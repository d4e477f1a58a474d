"""`ragstone key`: keys of the HTTP API, made, listed and revoked on the server's machine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal, Optional

import typer

from ragstone.cli.options import Json
from ragstone.cli.session import with_app
from ragstone.cli.shapes import key_json
from ragstone.cli.terminal import Terminal
from ragstone.cli.words import say
from ragstone.errors import InputError

if TYPE_CHECKING:
    from ragstone.kb.bootstrap import App
    from ragstone.kb.keys import KeyInfo

_MOST_LISTED = 10_000

Action = Annotated[Literal["create", "list", "revoke"], typer.Argument(help=say("cli.arg_key_action"))]
KeyId = Annotated[
    Optional[str],  # noqa: UP045 (read by typer at run time)
    typer.Argument(metavar="ID", help=say("cli.arg_key_id")),
]
Name = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--name", metavar="NAME", help=say("cli.opt_key_name")),
]
Role = Annotated[
    Optional[Literal["reader", "editor", "admin"]],  # noqa: UP045
    typer.Option("--role", help=say("cli.opt_key_role")),
]
Bases = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--base", "-b", metavar="NAME", help=say("cli.opt_key_bases")),
]
Expires = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--expires", metavar="WHEN", help=say("cli.opt_key_expires")),
]
PerMinute = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--per-minute", metavar="N", help=say("cli.opt_key_per_minute")),
]


def key(
    action: Action,
    key_id: KeyId = None,
    name: Name = None,
    role: Role = None,
    bases: Bases = None,
    expires: Expires = None,
    per_minute: PerMinute = None,
    as_json: Json = False,
) -> int:
    terminal = Terminal(as_json=as_json)
    if (action == "revoke") != (key_id is not None):
        raise InputError("cli.key_usage")
    if action == "list":
        return _list(terminal)
    if key_id is not None:
        return _revoke(terminal, key_id)
    if name is None or role is None:
        raise InputError("cli.key_usage")
    until = None if expires is None else _moment(expires)

    async def work(app: App) -> tuple[KeyInfo, str]:
        from ragstone.kb import keys
        from ragstone.kb.bases import resolve
        from ragstone.kb.caller import OWNER

        database = await app.database()
        base_ids = None if bases is None else await resolve(database, bases)
        return await keys.create(
            database, OWNER, name=name, role=role, bases=base_ids, per_minute=per_minute, expires_at=until
        )

    info, text = with_app(terminal, work)
    if as_json:
        terminal.emit({**key_json(info), "key": text})
    else:
        terminal.note(say("cli.key_made", name=info.name, role=info.role, key_id=info.key_id))
        terminal.line(text)
    return 0


def _list(terminal: Terminal) -> int:
    async def work(app: App) -> tuple[list[KeyInfo], dict[str, str]]:
        from ragstone.kb import keys
        from ragstone.kb.bases import ids_by_name
        from ragstone.kb.caller import OWNER

        database = await app.database()
        found, _ = await keys.listing(database, OWNER, limit=_MOST_LISTED)
        return found, {base_id: name for name, base_id in (await ids_by_name(database)).items()}

    found, names = with_app(terminal, work)
    if terminal.as_json:
        terminal.emit({"keys": [key_json(info) for info in found]})
    elif not found:
        terminal.line(say("cli.key_none"))
    else:
        terminal.table([_row(info, names) for info in found], header=say("cli.key_head").split("|"))
    return 0


def _revoke(terminal: Terminal, key_id: str) -> int:
    async def work(app: App) -> KeyInfo:
        from ragstone.kb import keys
        from ragstone.kb.caller import OWNER

        return await keys.revoke(await app.database(), OWNER, key_id)

    info = with_app(terminal, work)
    if terminal.as_json:
        terminal.emit(key_json(info))
    else:
        terminal.line(say("cli.key_revoked", name=info.name, key_id=info.key_id))
    return 0


def _row(info: KeyInfo, names: dict[str, str]) -> tuple[str, ...]:
    bases = say("cli.key_all_bases")
    if info.bases is not None:
        bases = ", ".join(names.get(base_id, base_id) for base_id in info.bases)
    used = f"{info.last_used_at.astimezone():%Y-%m-%d %H:%M}" if info.last_used_at else "-"
    return info.key_id, info.name, info.prefix, info.role, bases, _state(info), used


def _state(info: KeyInfo) -> str:
    if info.revoked_at is not None:
        return say("cli.key_state_revoked")
    if info.expires_at is None:
        return say("cli.key_state_valid")
    if info.expires_at <= datetime.now(UTC):
        return say("cli.key_state_expired")
    return say("cli.key_state_until", moment=f"{info.expires_at.astimezone():%Y-%m-%d %H:%M}")


def _moment(text: str) -> datetime:
    """`90d` from now, or the beginning of a day in UTC."""
    days = text.removesuffix("d")
    try:
        if text.endswith("d") and days.isascii() and days.isdigit():
            return datetime.now(UTC) + timedelta(days=int(days))
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise InputError("cli.key_expires", value=text) from error
