"""Texts to vectors: `local` runs multilingual-e5-small here, `openai` asks a server."""
