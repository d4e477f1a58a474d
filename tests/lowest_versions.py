"""Print the lowest version of each package that pyproject.toml allows, as constraints for pip.

    python tests/lowest_versions.py > lowest.txt        (see `make test-lowest`)

pip takes the newest versions that fit, so a lower bound that no longer works would never be noticed.
Packages that only others need are left to pip.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"

_BOUND = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?(?:>=|==)(?P<version>[0-9][0-9.]*)")


def lowest_versions(project: Path = PROJECT) -> Iterator[tuple[str, str]]:
    """(name, version) of each package, sorted; ValueError for one without a bound or with two."""
    table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    found: dict[str, str] = {}
    for requirement in chain(table["dependencies"], *table["optional-dependencies"].values()):
        if requirement.startswith(f"{table['name']}["):
            continue
        bound = _BOUND.match(requirement)
        if bound is None:
            raise ValueError(f"{requirement!r} has no lower bound.")
        if found.setdefault(bound["name"], bound["version"]) != bound["version"]:
            raise ValueError(f"{bound['name']} has two lower bounds.")
    yield from sorted(found.items())


if __name__ == "__main__":
    for name, version in lowest_versions():
        print(f"{name}=={version}")  # noqa: T201
