"""Ragstone: answers from your own documents, with checked sources."""
