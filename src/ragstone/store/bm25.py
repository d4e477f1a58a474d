"""What both stores weigh full text with."""

from __future__ import annotations

# Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).
BM25_K1 = 1.2
BM25_B = 0.75

MAX_TERMS = 64
"""Distinct terms of a question that are searched, the first ones: each costs a look-up."""
