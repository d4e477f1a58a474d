"""What the processes of the application write to standard error."""

from __future__ import annotations

import subprocess
import sys

CANCELLED = """
import sys, anyio
from pathlib import Path
from ragstone.kb import logs
from ragstone.kb.settings import Settings
from ragstone.postgres.pool import Database

async def main():
    async with await Database.open(sys.argv[1]) as database:
        with anyio.move_on_after(0.3) as scope:
            async with database.connection() as connection:
                await connection.execute("SELECT pg_sleep(60)")
        assert scope.cancelled_caught

logs.configure(Settings(home=Path("unused")))
anyio.run(main)
"""


def test_a_query_that_is_cancelled_by_a_stop_or_a_client_that_leaves_is_no_warning(
    embedded_database: str,
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", CANCELLED, embedded_database], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")
