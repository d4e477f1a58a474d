"""What all OpenDocument packages share: encryption and what they say about themselves."""

from __future__ import annotations

from ragstone.errors import PasswordRequired
from ragstone.parse.decode import tidy_characters
from ragstone.parse.package import Package, local
from ragstone.types import Blob


def refuse_encrypted(blob: Blob, package: Package) -> None:
    """Raises PasswordRequired for an encrypted package."""
    if b"encryption-data" in package.read("META-INF/manifest.xml", limit=10_000_000):
        raise PasswordRequired("parse.password", name=blob.name)


def odf_properties(package: Package) -> tuple[str, dict[str, str]]:
    """(title, metadata) of a package; empty where it says nothing."""
    found: dict[str, str] = {}
    for item in package.children("meta.xml", depth=3) if "meta.xml" in package.names else ():
        found.setdefault(local(item), tidy_characters(" ".join((item.text or "").split())))
    author = found.get("creator") or found.get("initial-creator", "")
    return found.get("title", ""), {"author": author} if author else {}
