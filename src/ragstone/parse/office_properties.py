"""What an Office package says about itself: title, author, times."""

from __future__ import annotations

from datetime import UTC, datetime

from ragstone.parse.decode import tidy_characters
from ragstone.parse.package import Package, local


def properties(package: Package) -> tuple[str, dict[str, str | datetime]]:
    """(title, metadata) of a package; empty where it says nothing."""
    items = package.items("docProps/core.xml")
    found = {local(item): " ".join((item.text or "").split()) for item in items}
    metadata: dict[str, str | datetime] = {}
    if found.get("creator"):
        metadata["author"] = tidy_characters(found["creator"])
    for name in ("created", "modified"):
        try:
            time = datetime.fromisoformat(found.get(name, ""))
        except ValueError:
            continue
        metadata[name] = time if time.tzinfo else time.replace(tzinfo=UTC)
    return tidy_characters(found.get("title", "")), metadata
