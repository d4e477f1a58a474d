"""What every test shares."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
"""Cases and documents beside the checkout; tests that read them are collected only where it exists."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
