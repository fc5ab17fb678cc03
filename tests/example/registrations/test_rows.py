"""One row is checked cell by cell, and its error names every cell that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from example_project.registrations.rows import BadRow, read_row

TICKETS = {"standard": 1, "vip": 2}
SOUND = {"line": 2, "email": "ann@example.org", "name": "Ann", "ticket": "vip", "quantity": "2"}


def test_a_sound_row_is_read_as_it_is_meant() -> None:
    row = read_row(
        {**SOUND, "email": " ANN@Example.org ", "ticket": "VIP", "name": "  Zoé 't Hooft "}, TICKETS
    )
    assert (row.email, row.ticket, row.name, row.quantity) == ("ann@example.org", "vip", "Zoé 't Hooft", 2)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no address": ({"email": "ann"}, "email: is not an e-mail address"),
    "an empty address": ({"email": ""}, "email: is not an e-mail address"),
    "an address of two": ({"email": "a@x.org,b@x.org"}, "email: is not an e-mail address"),
    "no name": ({"name": " "}, "name: "),
    "a name that is too long": ({"name": "n" * 101}, "name: "),
    "a name that turns the line": ({"name": "a\u202eb"}, "name: has characters that cannot be printed"),
    "a name of two lines": ({"name": "a\nb"}, "name: has characters that cannot be printed"),
    "another ticket": ({"ticket": "gold"}, "ticket: is none of standard, vip"),
    "none of them": ({"quantity": "0"}, "quantity: "),
    "eleven of them": ({"quantity": "11"}, "quantity: "),
    "a word": ({"quantity": "two"}, "quantity: "),
    "half of one": ({"quantity": "1.5"}, "quantity: "),
    "too many cells": ({"more": 2}, "2 cells more than the header"),
}


@pytest.mark.parametrize(("change", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_cell_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRow) as refusal:
        read_row({**SOUND, **change}, TICKETS)
    assert words in str(refusal.value)
    assert "pydantic" not in str(refusal.value)


def test_every_wrong_cell_is_named_at_once_and_a_missing_one_too() -> None:
    with pytest.raises(BadRow) as refusal:
        read_row({"line": 2, "email": "ann", "quantity": "11"}, TICKETS)
    assert [part.partition(":")[0] for part in str(refusal.value).split("; ")] == [
        "email", "name", "ticket", "quantity",
    ]  # fmt: skip
