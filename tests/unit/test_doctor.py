"""What the doctor looks for is what an installation of the extra brings along."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from ragstone.kb.doctor import EXTRAS

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(extra: str) -> set[str]:
    """The distributions that pyproject.toml names for an extra."""
    requirements = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return {normal(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in requirements[extra]}


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_packages_of_an_extra_are_declared_by_it(extra: str) -> None:
    # A package that merely happens to be installed would make the doctor fail on a fresh installation.
    homes = packages_distributions()
    strangers = [
        package
        for package in EXTRAS[extra]
        if not declared(extra) & {normal(name) for name in homes.get(package, [package])}
    ]
    assert strangers == []
