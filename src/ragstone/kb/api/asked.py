"""What routes ask for: the application's parts and who calls."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from ragstone.kb.bootstrap import App
from ragstone.kb.caller import OWNER, Caller


def app_of(request: Request) -> App:
    return request.app.state.ragstone


async def caller_of(request: Request) -> Caller:
    """Who calls, by the key of the request."""
    return OWNER


Parts = Annotated[App, Depends(app_of)]
Who = Annotated[Caller, Depends(caller_of)]
