"""One row of an upload as it must be: checked by pydantic, with errors that an organiser can act on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from django.core.exceptions import ValidationError as NotAnAddress
from django.core.validators import validate_email
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo

#: What no badge can show: control characters, and those that turn the direction of a text.
UNPRINTABLE = re.compile("[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

LONGEST_ADDRESS = 254


class BadRow(ValueError):
    """The row itself is wrong, and will be wrong however often it is tried. The message names its cells."""


def _address(text: str) -> str:
    try:
        validate_email(text)
    except NotAnAddress:
        raise ValueError("is not an e-mail address") from None
    # Letters may become two: what is compared and stored must fit as well.
    if len(found := text.casefold()) > LONGEST_ADDRESS:
        raise ValueError("is too long for an e-mail address")
    return found


def _printable(text: str) -> str:
    if UNPRINTABLE.search(text):
        raise ValueError("has characters that cannot be printed")
    return text


def _on_sale(code: str, info: ValidationInfo) -> str:
    tickets = (info.context or {}).get("tickets", ())
    if code.casefold() not in tickets:
        raise ValueError(f"is none of {', '.join(sorted(tickets))}")
    return code.casefold()


class Row(BaseModel):
    """An attendee, and what is ordered."""

    model_config = ConfigDict(str_strip_whitespace=True, frozen=True)

    line: int
    email: Annotated[str, AfterValidator(_address)]
    name: Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_printable)]
    ticket: Annotated[str, AfterValidator(_on_sale)]
    quantity: Annotated[int, Field(ge=1, le=10)]
    more: int = 0


def read_row(value: Mapping[str, Any], tickets: Mapping[str, object]) -> Row:
    """Return the row; ``tickets`` are those that the event sells. Raises :class:`BadRow` for another."""
    try:
        row = Row.model_validate(dict(value), context={"tickets": tickets})
    except ValidationError as error:
        raise BadRow("; ".join(map(_said, error.errors(include_url=False)))) from None
    if row.more:
        raise BadRow(f"the row has {row.more} cells more than the header; is a comma not quoted?")
    return row


def _said(problem: Mapping[str, Any]) -> str:
    where = ".".join(map(str, problem["loc"]))
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{where}: {message}"
