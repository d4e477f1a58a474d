"""Where documents are kept and found: in memory, or in PostgreSQL."""
