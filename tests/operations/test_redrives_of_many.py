"""Redrives of many dead letters: each of them once, at the rate that was asked for, whatever stops it."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest

from django_idempotent_tasks import dead_letter
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import DeadLetter, IdempotencyKey, OperationState, RedriveOperation
from django_idempotent_tasks.operations.redrives import begin, stop
from django_idempotent_tasks.operations.selection import Selection
from django_idempotent_tasks.signals import redriven
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper import redrives
from django_idempotent_tasks.sweeper.redrives import carry_on
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


@pytest.fixture(autouse=True)
def _small_bites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redrives, "BITE", 3)


def letters(till: Till, shop: Counter, count: int, **columns: Any) -> None:
    """So many dead letters of one kind."""
    task = till.seller(shop, mode="leased")
    for order in range(count):
        dead_letter(task, (order,))
    if columns:
        shop.put(**columns)


def carried_on(shop: Counter) -> list[int]:
    """What each bite looked at until one found nothing to do."""
    bites: list[int] = []
    while True:
        with get_store(shop.alias).side_connection() as side:
            done = carry_on(side)
        bites.append(done)
        if not done:
            return bites
        assert len(bites) < 100


def progress(operation: RedriveOperation, shop: Counter) -> tuple[int, int, OperationState]:
    operation.refresh_from_db(using=shop.alias)
    return operation.redriven, operation.skipped, OperationState(operation.state)


def pending(shop: Counter) -> int:
    return IdempotencyKey.objects.using(shop.alias).filter(state=State.PENDING).count()


def test_an_operation_redrives_every_dead_letter_once(till: Till, shop: Counter) -> None:
    letters(till, shop, 8)
    operation = begin(Selection(), by="ann", reason="mended", alias=shop.alias)
    assert operation.total == 8
    assert carried_on(shop) == [3, 3, 2, 0]
    assert progress(operation, shop) == (8, 0, OperationState.DONE)
    assert {row.token for row in IdempotencyKey.objects.using(shop.alias)} == {2}
    assert DeadLetter.objects.using(shop.alias).count() == 0


@pytest.mark.parametrize("microsecond", [0, 123_000, 999_000])
def test_dead_letters_of_the_same_moment_are_all_taken(till: Till, shop: Counter, microsecond: int) -> None:
    letters(till, shop, 8)
    moment = shop_moment(shop).replace(microsecond=microsecond) - timedelta(seconds=1)
    put_moment(shop, moment)
    operation = begin(Selection(), by="ann", reason="mended", alias=shop.alias)
    carried_on(shop)
    assert progress(operation, shop) == (8, 0, OperationState.DONE)


@pytest.mark.parametrize("microsecond", [0, 123_000])
def test_what_cannot_be_sent_is_skipped_once(till: Till, shop: Counter, microsecond: int) -> None:
    letters(till, shop, 8, message="no JSON")
    put_moment(shop, shop_moment(shop).replace(microsecond=microsecond) - timedelta(seconds=1))
    operation = begin(Selection(), by="ann", reason="mended", alias=shop.alias)
    carried_on(shop)
    assert progress(operation, shop) == (0, 8, OperationState.DONE)
    assert DeadLetter.objects.using(shop.alias).count() == 8


def shop_moment(shop: Counter) -> Any:
    return IdempotencyKey.objects.using(shop.alias).earliest("finished_at").finished_at


def put_moment(shop: Counter, moment: Any) -> None:
    """Let all have ended at one moment, written as the store writes it."""
    connection = get_store(shop.alias).connection
    text = moment.strftime("%Y-%m-%d %H:%M:%S.%f")
    if connection.vendor == "sqlite":
        text = text[:-3]
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {IdempotencyKey._meta.db_table} SET finished_at = %s", [text])  # noqa: S608


def test_what_fails_again_is_not_redriven_again_by_the_same_operation(till: Till, shop: Counter) -> None:
    letters(till, shop, 4)
    operation = begin(Selection(), by="ann", reason="mended", alias=shop.alias)
    with get_store(shop.alias).side_connection() as side:
        carry_on(side)
    with shifted(5):
        again = till.seller(shop, mode="leased")
        dead_letter(again, (99,))
        carried_on(shop)
    assert progress(operation, shop) == (4, 0, OperationState.DONE)
    assert DeadLetter.objects.using(shop.alias).count() == 1


def test_a_selection_takes_what_it_names_and_nothing_else(till: Till, shop: Counter) -> None:
    letters(till, shop, 2)
    other = till.seller(shop, mode="leased")
    mine = dead_letter(other, (7,))
    operation = begin(Selection(task=other.name), by="ann", reason="mended", alias=shop.alias)
    carried_on(shop)
    assert progress(operation, shop) == (1, 0, OperationState.DONE)
    assert IdempotencyKey.objects.using(shop.alias).get(state=State.PENDING).digest == mine.digest


def test_a_stopped_operation_goes_no_further_and_the_next_one_does_the_rest(
    till: Till, shop: Counter
) -> None:
    letters(till, shop, 8)
    first = begin(Selection(), by="ann", reason="mended", alias=shop.alias)
    with get_store(shop.alias).side_connection() as side:
        assert carry_on(side) == 3
    assert stop(first, by="bob", alias=shop.alias) is True
    assert carried_on(shop) == [0]
    second = begin(Selection(), by="ann", reason="go on", alias=shop.alias)
    carried_on(shop)
    assert progress(first, shop) == (3, 0, OperationState.STOPPED)
    assert progress(second, shop) == (5, 0, OperationState.DONE)
    assert {row.token for row in IdempotencyKey.objects.using(shop.alias)} == {2}


def test_an_operation_keeps_to_its_rate_also_after_a_long_pause(till: Till, shop: Counter) -> None:
    letters(till, shop, 60)
    operation = begin(Selection(), by="ann", reason="mended", rate=2, alias=shop.alias)
    began = time.monotonic()
    assert carried_on(shop)[0] <= 2
    with shifted(3600):
        assert sum(carried_on(shop)) <= 2 * (redrives.CATCH_UP + time.monotonic() - began)
        before = progress(operation, shop)[0]
        assert before > 0
    with shifted(3605):
        assert 8 <= sum(carried_on(shop)) <= 12 + 2 * (time.monotonic() - began)
    assert pending(shop) == progress(operation, shop)[0] <= 40


def test_each_redrive_is_announced_after_its_commit_with_who_asked_for_it(till: Till, shop: Counter) -> None:
    heard: list[tuple[str, int]] = []

    def hear(by: str, **_: object) -> None:
        heard.append((by, pending(shop)))

    letters(till, shop, 3)
    begin(Selection(), by="ann", reason="mended", alias=shop.alias)
    redriven.connect(hear)
    try:
        carried_on(shop)
    finally:
        redriven.disconnect(hear)
    assert heard == [("ann", 3)] * 3


def test_an_operation_that_cannot_be_read_is_stopped_and_holds_up_no_other(till: Till, shop: Counter) -> None:
    letters(till, shop, 2)
    broken = begin(Selection(), by="ann", reason="mended", alias=shop.alias)
    RedriveOperation.objects.using(shop.alias).update(selection='{"colour": "red"}')
    sound = begin(Selection(), by="ann", reason="mended", alias=shop.alias)
    carried_on(shop)
    assert progress(broken, shop) == (0, 0, OperationState.STOPPED)
    assert progress(sound, shop) == (2, 0, OperationState.DONE)
