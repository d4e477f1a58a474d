"""What requests and answers of all routes share."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict

T = TypeVar("T")

MOST_ITEMS = 200
Limit = Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Items of a page.")]
Offset = Annotated[int, Query(ge=0, le=10_000_000, description="Items before the page.")]


class RequestBody(BaseModel):
    """JSON of a request: a field that does not exist is an error, and so is a number that is none."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Page(BaseModel, Generic[T]):
    """A stretch of a list."""

    items: list[T]
    total: int
    limit: int
    offset: int
