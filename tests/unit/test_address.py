"""Addresses as they may be shown."""

from __future__ import annotations

import pytest

from ragstone.address import shown


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:11434/v1", "http://localhost:11434/v1"),
        ("https://me:hidden@models.example/v1?key=hidden#hidden", "https://models.example/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("http://localhost:port/v1", "http://localhost:port/v1"),
        ("http://[bad", "?"),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(url: str, expected: str) -> None:
    assert shown(url) == expected
