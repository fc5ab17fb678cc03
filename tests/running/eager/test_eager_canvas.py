"""A canvas that is run where it is made: duplicates in it have real values."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery, chain, chord, group

from django_idempotent_tasks import IdempotentTask

pytestmark = pytest.mark.usefixtures("_twice")

MODES = pytest.mark.parametrize("mode", ["leased", "atomic"])


def double_of(app: Celery, mode: str) -> Any:
    @app.task(base=IdempotentTask, key="number", mode=mode)
    def double(number: int) -> int:
        return number * 2

    return double


@MODES
@pytest.mark.parametrize("calls", [1, 2])
def test_a_chain_goes_on_with_the_value_of_a_duplicate(app: Celery, mode: str, calls: int) -> None:
    double = double_of(app, mode)
    for _ in range(calls):
        assert chain(double.s(7), double.s()).apply_async().get() == 28
        assert (double.s(7) | double.s()).apply().get() == 28


@MODES
def test_a_group_and_a_chord_have_the_values_of_duplicates(app: Celery, mode: str) -> None:
    double = double_of(app, mode)

    @app.task(base=IdempotentTask, key="values", mode=mode)
    def collect(values: list[int]) -> int:
        return sum(values)

    double.delay(7)
    assert group(double.s(7), double.s(8), double.s(7)).apply_async().get() == [14, 16, 14]
    for _ in range(2):
        assert chord([double.s(7), double.s(8)], collect.s()).apply_async().get() == 30


@MODES
def test_a_duplicate_outside_a_canvas_is_skipped(app: Celery, mode: str) -> None:
    double = double_of(app, mode)
    double.delay(7)
    for again in (double.delay(7), double.s(7).delay(), double.s(7).apply(), double.apply((7,))):
        assert again.get()["status"] == "skipped"


@MODES
def test_a_replaced_task_has_the_value_of_what_takes_its_place(app: Celery, mode: str) -> None:
    double = double_of(app, mode)

    @app.task(base=IdempotentTask, key="number", bind=True, mode=mode)
    def replaced(self: Any, number: int) -> Any:
        return self.replace(double.s(number))

    for _ in range(2):
        assert chain(replaced.s(7), double.s()).apply_async().get() == 28
