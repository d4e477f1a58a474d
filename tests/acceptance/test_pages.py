"""The pages for readers: links lead somewhere, every page is reachable, the map names every module."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "ragstone"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *DOCS, *sorted((ROOT / "benchmarks").rglob("*.md"))]


def linked(page: Path) -> set[Path]:
    """Where the page's links to files of this repository lead."""
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    return {(page.parent / link).resolve() for link in links if "://" not in link}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    assert {path for path in linked(page) if not path.exists()} == set()


def test_every_page_is_reached_from_the_readmes_or_the_map() -> None:
    for readme in ("README.md", "README.zh.md"):
        reached = linked(ROOT / readme) | linked(ROOT / "docs" / "architecture.md")
        assert set(DOCS) - reached == set(), readme


def test_the_map_names_every_module_or_its_folder() -> None:
    named = linked(ROOT / "docs" / "architecture.md")
    parts = {path for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    unnamed = {
        path.name
        for path in parts - {PACKAGE / "__init__.py"}
        if path not in named and not any(path in other.parents for other in named)
    }
    assert unnamed == set()
