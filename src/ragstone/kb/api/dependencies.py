"""What routes ask for: the application's parts and who calls."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from ragstone.errors import Unauthorized
from ragstone.kb.bootstrap import App
from ragstone.kb.caller import Caller


async def app_of(request: Request) -> App:
    return request.app.state.ragstone


async def caller_of(request: Request) -> Caller:
    """Who calls, as the door (kb/api/door.py) has found out."""
    caller = getattr(request.state, "caller", None)
    if caller is None:
        raise Unauthorized("access.key_missing")
    return caller


Parts = Annotated[App, Depends(app_of)]
Who = Annotated[Caller, Depends(caller_of)]
