"""Addresses as they may be shown (pure)."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit


def shown(url: str) -> str:
    """The address without what may be a secret: user name, password, query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "?"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
