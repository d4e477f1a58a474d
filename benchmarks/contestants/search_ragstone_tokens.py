"""Ragstone as it is installed, the model's token vectors kept and compared too: what its local model does."""

from __future__ import annotations

from pathlib import Path

from measure import Known, main
from search_ragstone import Durable
from search_ragstone import make as durable


async def make(known: Known, work: Path) -> Durable:
    return await durable(known, work, known.tokens())


if __name__ == "__main__":
    main(make)
