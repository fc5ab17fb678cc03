"""A redrive operation that cannot go on keeps the sweeper from nothing else."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import connections, transaction
from kombu.utils.json import register_type

from django_idempotent_tasks.models import IdempotencyKey, OperationState, RedriveOperation
from django_idempotent_tasks.operations.redrives import begin
from django_idempotent_tasks.operations.selection import Selection
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.redrives import carry_on
from django_idempotent_tasks.testing.contract.bench import a_failure
from tests.support.keys import Keys, idem

pytestmark = pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])
TEXT = '{"v": 1, "args": [7], "kwargs": {}, "options": {"task_id": "A"}}'


@pytest.fixture(name="keys")
def _keys() -> Keys:
    return Keys("default")


def buried(keys: Keys, text: str = TEXT) -> Any:
    """A dead letter with this message."""
    claim = keys.claimed()
    keys.in_columns(claim, message=text)
    assert keys.fail(claim, failure=a_failure())
    return claim


@pytest.mark.postgresql
def test_a_dead_letter_that_an_open_transaction_has_is_passed_over_without_a_wait(keys: Keys) -> None:
    held, free = buried(keys), buried(keys)
    operation = begin(Selection(), by="ann", reason="mended")
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            IdempotencyKey.objects.select_for_update().get(digest=held.digest)
            locked.set()
            done.wait(20)
        connections.close_all()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert locked.wait(20)
        with keys.store().side_connection() as side:
            assert carry_on(side) == 2
    finally:
        done.set()
        holder.join()
    operation.refresh_from_db()
    assert (operation.redriven, operation.skipped) == (1, 1)
    assert keys.row(free).state == State.PENDING


def test_a_message_that_the_project_can_no_longer_encode_is_passed_over(keys: Keys) -> None:
    class Money:
        """A type of the project's."""

    def refuse(_value: Money) -> str:
        raise KeyError

    register_type(Money, "tests.money", refuse, lambda _value: Money())
    buried(
        keys, '{"v": 1, "args": [{"__type__": "tests.money", "__value__": 1}], "kwargs": {}, "options": {}}'
    )
    free = buried(keys)
    operation = begin(Selection(), by="ann", reason="mended")
    assert carry_on(keys.store()) == 2
    operation.refresh_from_db()
    assert (operation.redriven, operation.skipped, operation.state) == (1, 1, OperationState.DONE)
    assert keys.row(free).state == State.PENDING


@pytest.mark.parametrize("selection", ["[1]", "null", '{"category": "x"}', '{"state": [1]}', "{"])
def test_an_operation_that_cannot_be_read_is_stopped_and_the_others_go_on(keys: Keys, selection: str) -> None:
    free = buried(keys)
    broken = begin(Selection(), by="ann", reason="mended")
    RedriveOperation.objects.filter(pk=broken.pk).update(selection=selection)
    begin(Selection(), by="bob", reason="mended")
    assert carry_on(keys.store()) == 1
    broken.refresh_from_db()
    assert (broken.state, broken.stopped_by) == (OperationState.STOPPED, "sweeper")
    assert keys.row(free).state == State.PENDING


@pytest.mark.parametrize("rate", [0, 2_000_000, 2**40])
def test_a_rate_that_no_operation_can_have_is_refused_wherever_it_is_given(rate: int) -> None:
    with pytest.raises(ValueError, match="rate must be 1 to 1,000,000 keys a second"):
        begin(Selection(), by="ann", reason="mended", rate=rate)
    with pytest.raises(CommandError, match=r"between 1 and|write 1/s to 1000000/s"):
        idem("dead-letters", "redrive", "--all", "--rate", f"{rate}/s")
