"""Retrievers: a question to hits. Any `async def (Query) -> list[Hit]` is one."""
