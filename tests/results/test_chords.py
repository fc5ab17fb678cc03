"""A chord's body is called once, with every part's value, however often its parts are reported."""

from __future__ import annotations

import random
from typing import Any

import pytest
from celery import chain, chord, group
from celery.exceptions import ChordError
from django_celery_results.models import TaskResult

from tests.results.desk import Desk, counters


def bodies(desk: Desk) -> list[Any]:
    """What the body was called with, each time."""
    return [message["body"][0] for message in desk.messages("collect")]


def three(desk: Desk) -> tuple[Any, list[Any]]:
    """A chord of three parts, and their messages."""
    result = chord([desk.part.s(number) for number in range(3)], desk.collect.s()).apply_async()
    return result, desk.messages()


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_the_body_gets_the_values_in_the_order_of_the_parts(desk: Desk, order: list[int]) -> None:
    _, parts = three(desk)
    for place in order:
        assert bodies(desk) == []
        desk.end(parts[place])
    assert bodies(desk) == [[[0, 1, 2]]]
    assert counters() == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_part_that_is_reported_again_neither_hurries_nor_hinders_the_body(desk: Desk, seed: int) -> None:
    _, parts = three(desk)
    reports = [*range(3), *random.Random(seed).choices(range(3), k=5)]
    random.Random(seed).shuffle(reports)
    last_first = max(reports.index(part) for part in range(3))
    for place, part in enumerate(reports):
        desk.end(parts[part])
        assert bodies(desk) == ([[[0, 1, 2]]] if place == last_first else [])


def test_a_chord_with_a_failed_part_fails_after_its_last_part_and_says_so(desk: Desk) -> None:
    body = desk.collect.s().on_error(desk.heard.s())
    result = chord([desk.part.s(1), desk.part.s("fails"), desk.part.s(3)], body).apply_async()
    parts = desk.messages()
    for part in (parts[1], parts[0], parts[1]):
        desk.end(part)
        assert desk.messages() == []
    desk.end(parts[2])
    (heard,) = desk.messages("heard")
    assert heard["body"][0] == [result.id]
    error = desk.app.AsyncResult(result.id).result
    assert isinstance(error, ChordError)
    assert "ended with ValueError('fails')" in str(error)
    desk.end(parts[1])
    assert desk.messages() == []


def test_a_chain_that_fails_early_in_a_chord_counts_as_its_part(desk: Desk) -> None:
    failing = chain(desk.part.s("fails"), desk.part.si(2), desk.part.si(3))
    result = chord([failing, desk.part.s(4)], desk.collect.s()).apply_async()
    first, other = desk.messages()
    for message in (first, first, other, other):
        desk.end(message)
    assert desk.messages() == []
    assert result.state == "FAILURE"
    assert counters() == 0


NESTED = {
    "chains": lambda d: ([chain(d.part.s(1), d.collect.s()), chain(d.part.s(2), d.collect.s())], [1, 2]),
    "a chord": lambda d: ([chord([d.part.s(1), d.part.s(2)], d.collect.s()), d.part.s(3)], [[1, 2], 3]),
    "a chain with a chord": lambda d: (
        [chain(d.part.s(1), group(d.part.si(2), d.part.si(3)), d.collect.s()), d.part.s(4)],
        [[2, 3], 4],
    ),
    "a chain that ends in a group": lambda d: (
        [chain(d.part.s(1), group(d.part.si(2), d.part.si(3))), d.part.s(4)],
        [[2, 3], 4],
    ),
    "a group, which Celery turns round": lambda d: (
        [group(d.part.s(1), d.part.s(2)), d.part.s(3)],
        [2, 1, 3],
    ),
    "many": lambda d: ([d.part.s(number) for number in range(30)], list(range(30))),
}


@pytest.mark.parametrize("header", NESTED.values(), ids=NESTED)
def test_a_nested_header_ends_with_all_its_values(desk: Desk, header: Any) -> None:
    parts, values = header(desk)
    result = chord(parts, desk.last.s()).apply_async()
    seen = desk.finish()
    assert seen[result.id] == ("desk.last", [values])
    assert result.get(timeout=1) == values
    assert counters() == 0


def test_a_part_whose_result_nobody_wants_has_its_value_in_the_body(desk: Desk) -> None:
    parts = [desk.part.s(1).set(ignore_result=True), desk.part.s(2)]
    result = chord(parts, desk.collect.s()).apply_async()
    desk.finish()
    assert result.get(timeout=1) == [1, 2]


def test_a_step_that_sends_its_chord_again_ends_well_and_the_body_keeps_its_id(desk: Desk) -> None:
    steps = chain(desk.part.s(1), group(desk.part.si(2), desk.part.si(3)), desk.collect.s())
    result = steps.apply_async()
    (first,) = desk.messages()
    for _ in range(2):
        desk.end(first)
    assert TaskResult.objects.get(task_id=first["id"]).status == "SUCCESS"
    parts = desk.messages()
    assert len(parts) == 4
    for part in parts:
        desk.end(part)
    assert {message["id"] for message in desk.messages("collect")} == {result.id}


def test_nothing_is_stored_for_a_call_without_an_id(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.app.backend.mark_as_failure(None, ValueError("no"))
    desk.app.backend.mark_as_done(None, 1)
    assert not TaskResult.objects.exists()
    assert "without a task id" in caplog.text
