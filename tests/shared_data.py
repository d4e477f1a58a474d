"""Where the cases and documents beside the checkout are, and what tests of them show."""

from __future__ import annotations

from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared"
SHOWN = "shown"
"""The property of a test (`record_property`) whose text stands at the end of the run."""
