"""What a base has otherwise than the server's settings say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import anyio.to_thread

from ragstone.errors import InputError, InvalidSetting
from ragstone.kb.bases import QUERIES
from ragstone.kb.settings import Settings, changed
from ragstone.postgres.pool import Database

NAMES = ("chunk_size", "chunk_overlap", "chunk_parent", "top_k", "min_score")
"""Settings that a base may have of its own; those of chunks take effect when it is built anew."""


def with_own(settings: Settings, own: Mapping[str, object]) -> Settings:
    """The server's settings with a base's own on top.

    Raises:
        InputError: a name that no base may have of its own, or values that cannot be used.
    """
    for name in own:
        if name not in NAMES:
            raise InputError("base.setting_unknown", name=name, known=", ".join(NAMES))
    try:
        return changed(settings, own)
    except InvalidSetting as error:
        told = {name: error.values.get(name, "") for name in ("name", "value", "reason")}
        raise InputError("base.setting", **told) from error


async def settings_of(database: Database, base_id: str, settings: Settings) -> Settings:
    """The settings as a base has them; those of the server for one that is not there.

    Raises:
        InputError: a setting of the base does not go with those of the server any more.
    """
    async with database.connection() as connection:
        row = await (await connection.execute(QUERIES["own_settings"], {"base_id": base_id})).fetchone()
    own = cast("dict[str, Any]", row[0]) if row is not None else {}
    # Checking them is work for a thread: some milliseconds.
    return await anyio.to_thread.run_sync(with_own, settings, own) if own else settings
