"""Where the cases and documents beside the checkout are; tests of them are collected only there."""

from __future__ import annotations

from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared"
