"""Conversations: sessions about one or several bases, and the messages in them."""

from __future__ import annotations

from ragstone.kb.redaction import redact

__all__ = ["redact"]
