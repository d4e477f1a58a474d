"""Addresses as they may be shown (pure)."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote, urlsplit, urlunsplit


def shown(url: str) -> str:
    """The address without what may be a secret: user name, password, query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "?"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def readable(uri: str) -> str:
    """The path of a `file:` address as a person writes it; any other address as it is."""
    return unquote(uri.removeprefix("file://")) if uri.startswith("file://") else uri


_SECRET_NAME = re.compile(r"pass|key|token|secret|signature|credential|\bsig\b|\bauth", re.IGNORECASE)
_SAFE = "/%:@!$&'()*+,;=~?-._[]"


def request_url(url: str) -> str:
    """The address as it is asked for: ASCII, without fragment, user name, password and default port.

    Raises:
        ValueError: not an address of the web.
    """
    parts = urlsplit("".join(url.split("\n")).strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(url)
    host = parts.hostname if ":" in parts.hostname else parts.hostname.encode("idna").decode().lower()
    host = f"[{host}]" if ":" in host else host
    port = "" if parts.port in (None, {"http": 80, "https": 443}[parts.scheme]) else f":{parts.port}"
    # What stands behind `!/` is a member of a container, never a part of its address.
    path = quote(parts.path or "/", safe=_SAFE).replace("!/", "%21/")
    return urlunsplit((parts.scheme, host + port, path, quote(parts.query, safe=_SAFE), ""))


def stored_url(url: str) -> str:
    """`request_url` without the parts of its query whose names say that they are secret."""
    parts = urlsplit(request_url(url))
    kept = [item for item in parts.query.split("&") if not _SECRET_NAME.search(item.partition("=")[0])]
    return urlunsplit(parts._replace(query="&".join(kept)))


LOADED = ("http", "https", "file")
"""Schemes of addresses that a loader reads; no other one is kept, or shown as a link."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def is_opened(uri: str) -> bool:
    """Whether the address is of a scheme that is read, or has none: never a script."""
    scheme = _SCHEME.match(uri.lstrip("".join(map(chr, range(33)))))
    return scheme is None or scheme[1].lower() in LOADED


def is_web(source: str) -> bool:
    return source.lower().startswith(("http://", "https://"))
