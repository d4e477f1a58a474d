"""Ragstone with everything in this process: MemoryStore."""

from __future__ import annotations

from pathlib import Path

from measure import Known, main
from over_store import Ragstone

from ragstone import MemoryStore


async def make(known: Known, work: Path) -> Ragstone:
    return Ragstone(known, MemoryStore())


if __name__ == "__main__":
    main(make)
