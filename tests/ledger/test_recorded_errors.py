"""What is recorded of an error: bounded, storable, grouped by class and place; whatever was raised."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from django_idempotent_tasks.ledger.failures import CUT, HEAD, NAME_LIMIT, TAIL, failure_of, storable_text
from django_idempotent_tasks.ledger.values import Failure
from django_idempotent_tasks.states import Category

#: Far above what any of these takes, and far below what a chain takes that is walked once for each link.
LONGEST = 2.0


def failure(error: BaseException, *, task: str = "shop.charge") -> Failure:
    began = time.perf_counter()
    found = failure_of(error, task=task, category=Category.FATAL, worker="w@host")
    assert time.perf_counter() - began < LONGEST
    for text in (found.error, found.description, found.traceback, found.worker):
        assert "\x00" not in text
        text.encode()
    assert len(found.error) <= NAME_LIMIT
    assert len(found.traceback) <= HEAD + len(CUT) + TAIL + 1000
    return found


def raised(raise_it: Callable[[], object]) -> BaseException:
    try:
        raise_it()
    except BaseException as error:  # noqa: BLE001  whatever it is, it is what is wanted
        return error
    raise AssertionError


def charge(message: str, kind: type[Exception] = ValueError) -> NoReturn:
    raise kind(message)


def refund(message: str) -> NoReturn:
    raise ValueError(message)


def dive(depth: int) -> None:
    if depth:
        dive(depth - 1)
    raise ValueError(depth)


def chain(length: int, *, depth: int = 0, cause: bool = True) -> BaseException:
    error: BaseException = ValueError("first")
    for number in range(length):
        outer = raised(lambda: dive(depth))
        outer.args = (number,)
        outer.__cause__, outer.__context__ = (error, None) if cause else (None, error)
        outer.__suppress_context__ = cause
        error = outer
    return error


def test_an_ordinary_error_is_told_with_its_class_message_and_place() -> None:
    found = failure(raised(lambda: charge("card 42 declined")))
    assert (found.error, found.description) == ("builtins.ValueError", "card 42 declined")
    assert "in charge" in found.traceback
    assert found.traceback.endswith("builtins.ValueError: card 42 declined\n")
    assert (found.category, found.worker) == (Category.FATAL, "w@host")


def test_an_error_without_a_traceback_is_told_too() -> None:
    assert failure(ValueError()).traceback == "builtins.ValueError\n"


def test_a_chain_is_told_first_cause_first() -> None:
    def wrap() -> NoReturn:
        try:
            charge("inner")
        except ValueError as error:
            raise KeyError("outer") from error

    lines = failure(raised(wrap)).traceback
    assert lines.index("inner") < lines.index("direct cause") < lines.index("outer")


def test_nul_and_lone_surrogates_are_stored_as_something_else() -> None:
    found = failure(ValueError("a\x00b\ud800c\U0001f600"))
    assert found.description == "a\\x00b?c\U0001f600"
    assert storable_text("\x00\udfff") == "\\x00?"


@pytest.mark.parametrize("cause", [True, False], ids=["cause", "context"])
@pytest.mark.parametrize(("length", "depth"), [(300, 0), (300, 90), (20_000, 0)])
def test_a_long_chain_is_told_in_part_and_in_time(*, length: int, depth: int, cause: bool) -> None:
    found = failure(chain(length, depth=depth, cause=cause))
    assert str(length - 1) in found.traceback
    assert "what came before" in found.traceback


def test_a_chain_that_is_a_ring_ends() -> None:
    first, second = ValueError("1"), ValueError("2")
    first.__cause__, second.__cause__ = second, first
    assert failure(first).traceback.count("direct cause") <= 21


def test_a_deep_recursion_is_told_by_its_end() -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(15_000)
    try:
        found = failure(raised(lambda: dive(10_000)))
    finally:
        sys.setrecursionlimit(limit)
    assert "in dive" in found.traceback
    assert found.description == "0"


def test_five_megabytes_are_cut() -> None:
    error = ValueError("x" * 5_000_000)
    error.add_note("n" * 5_000_000)
    found = failure(error)
    assert len(found.description) == 4096
    wide = ValueError("y")
    wide.__cause__ = ExceptionGroup("many", [ValueError("z" * 4000) for _ in range(1000)])
    for _ in range(20):
        outer = ValueError("z" * 4000)
        outer.__cause__, wide = wide, outer
    assert CUT in failure(wide).traceback


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("str")

    __repr__ = __str__


class Liar(str):
    __slots__ = ()

    def __len__(self) -> int:
        raise RuntimeError("len")

    replace = encode = __getitem__ = __len__  # type: ignore[assignment]


class Lying(Exception):
    def __str__(self) -> str:
        return Liar("a lie")


class Noted(Exception):
    __notes__ = 7  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("error", "description"),
    [(Mute(), "<Mute that cannot be printed>"), (Lying(), "a lie"), (Noted("n"), "n")],
)
def test_hostile_errors_are_told_as_far_as_they_go(error: Exception, description: str) -> None:
    assert failure(error).description == description


def test_hostile_names_are_cut_after_they_were_made_storable() -> None:
    kind = type("Odd", (Exception,), {})
    kind.__module__ = "m\x00" * 200
    assert "\x00" not in failure(kind()).error
    kind.__module__ = None  # type: ignore[assignment]
    assert failure(kind()).error.endswith("Odd")


def test_the_signature_is_of_class_and_place_and_not_of_the_message() -> None:
    found = failure(raised(lambda: charge("order 1")))
    assert found.signature == failure(raised(lambda: charge("order 2"))).signature
    assert len(found.signature) == 16
    others: list[Any] = [
        failure(raised(lambda: refund("order 1"))),
        failure(raised(lambda: charge("order 1", KeyError))),
        failure(raised(lambda: charge("order 1")), task="shop.refund"),
        failure(ValueError("order 1")),
    ]
    assert found.signature not in {other.signature for other in others}
