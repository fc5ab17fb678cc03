"""Whatever a task returns or raises can be written down, and what is replayed is what was returned."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from django_idempotent_tasks.errors.raised import class_of
from django_idempotent_tasks.ledger.encoding import (
    decode_error,
    decode_result,
    describe,
    encode_result,
    error_text,
)

LIMIT = 1000


@pytest.mark.parametrize(
    "value",
    [
        None,
        0,
        False,
        "",
        [],
        {},
        1.5,
        "a\x00b",
        "\ud800",
        {"when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "id": UUID(int=7)},
        Decimal("1.10"),
        b"\xff\x00",
    ],
    ids=repr,
)
def test_a_stored_result_comes_back_with_the_same_value_and_type(value: Any) -> None:
    text, stored = encode_result(value, limit=LIMIT)
    assert stored
    replayed = decode_result(text)
    assert replayed == value
    assert type(replayed) is type(value)


def test_stored_text_never_holds_what_a_database_refuses() -> None:
    text, _ = encode_result("\x00\ud800", limit=LIMIT)
    assert text is not None
    assert text.isascii()
    assert "\x00" not in text


def _deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class Dishonest:
    def __json__(self) -> None:
        raise ValueError


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, "x" * LIMIT, _deep(100_000), {"__type__": "x", "__value__": 1}, Dishonest()],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_replayed_says_so_and_never_raises(value: Any) -> None:
    assert encode_result(value, limit=LIMIT) == (None, False)


def test_a_hundred_levels_are_no_trouble() -> None:
    value = _deep(100)
    text, stored = encode_result(value, limit=LIMIT)
    assert stored
    assert decode_result(text) == value


def test_nan_is_replayed_as_nan() -> None:
    text, stored = encode_result(math.nan, limit=LIMIT)
    assert stored
    assert math.isnan(decode_result(text))


@pytest.mark.parametrize(
    ("error", "recorded"),
    [
        (ValueError("no"), "builtins.ValueError: no"),
        (ValueError("a\x00b\ud800"), "builtins.ValueError: a\x00b\ud800"),
        (Unspeakable(), "that cannot be printed"),
        (ValueError("x" * 10_000), "..."),
    ],
    ids=["plain", "hostile", "unprintable", "long"],
)
def test_every_error_is_recorded_in_one_bounded_line(error: Exception, recorded: str) -> None:
    text = error_text(class_of(error), describe(error))
    assert text.isascii()
    assert recorded in decode_error(text)
    assert len(decode_error(text)) < 5000


@pytest.mark.parametrize("text", [None, "", "{", "[]", "7", '{"error": "x"}'])
def test_an_unreadable_record_is_no_error_of_its_own(text: str | None) -> None:
    assert decode_error(text) == "no error was recorded"
