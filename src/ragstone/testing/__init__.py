"""Deterministic stand-ins for models, shipped so that your own tests can use them too."""

from __future__ import annotations

from ragstone.testing.embedder import FakeEmbedder

__all__ = ["FakeEmbedder"]
