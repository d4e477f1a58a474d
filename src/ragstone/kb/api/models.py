"""What requests and answers of all routes share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from ragstone.errors import install_command
from ragstone.messages import Language, known, render

T = TypeVar("T")

NOT_BLANK: dict[str, Any] = {"minLength": 1}
NOT_EMPTY: dict[str, Any] = {"minItems": 1}
"""What openapi.json says of values that the services refuse with a sentence of their own."""

MOST_ITEMS = 200
Limit = Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Items of a page.")]
Offset = Annotated[int, Query(ge=0, le=10_000_000, description="Items before the page.")]


class PlaceView(BaseModel):
    """Where people find a passage: from the page, or the row of a sheet, it begins on to that it ends on."""

    page: int | None = None
    page_end: int | None = None
    slide: int | None = Field(default=None, description="Of a presentation; its page is the same.")
    sheet: str | None = Field(default=None, description="Name of the sheet of a spreadsheet.")
    row: int | None = Field(default=None, description="As the spreadsheet numbers it, from 1.")
    row_end: int | None = None
    section: list[str] = Field(
        default=[], description="Headings it stands under, outermost first, where there are no pages."
    )


class RequestBody(BaseModel):
    """JSON of a request, taken as it is: a field that does not exist is an error, a 1 is no true."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class Said(BaseModel):
    """A stable code, and a sentence by Accept-Language in English or Chinese."""

    code: str = Field(examples=["parse.password"])
    detail: str


def said(code: str, values: Mapping[str, Any] | None, language: Language) -> Said:
    """A stored sentence; one of an earlier version of Ragstone may have lost its words."""
    # Earlier versions stored no command.
    named = {"command": install_command("ocr"), **(values or {})}
    try:
        return Said(code=code, detail=render(code, language, **named) if known(code) else code)
    except (KeyError, ValueError, TypeError):
        return Said(code=code, detail=code)


class Page(BaseModel, Generic[T]):
    """A stretch of a list."""

    items: list[T]
    total: int
    limit: int
    offset: int
