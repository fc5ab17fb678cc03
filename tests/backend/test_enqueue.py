"""An enqueue of a Django task is a reserved call: of the transaction, once for its key, as it was asked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from celery import Celery
from django.db import transaction
from django.utils import timezone

from django_idempotent_tasks import ConfigurationError, DuplicateTask, KeyReused, get_key, idempotent
from django_idempotent_tasks.backend.wishes import priority_for
from django_idempotent_tasks.messages.message import Message
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.backend.conftest import Place
from tests.sample import tasks_of_django as sample
from tests.support.deliveries import ALIASES, APPS
from tests.support.framework import InvalidTask, TaskResultStatus, task_backends, task_enqueued
from tests.support.till import Counter

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


def test_each_enqueue_is_work_of_its_own_unless_a_key_is_stated(place: Place, shop: Counter) -> None:
    first, second = sample.receipt.enqueue(7), sample.receipt.enqueue(7)
    assert first.id != second.id
    assert [place.deliver().result["order"] for _ in range(2)] == [7, 7]
    assert len(shop.effects) == 2


def test_an_enqueue_goes_out_with_the_commit_and_never_after_a_rollback(place: Place, alias: str) -> None:
    with transaction.atomic(using=alias):
        sample.receipt.enqueue(7)
        assert place.sent == []
    assert len(place.sent) == 1
    with transaction.atomic(using=alias):
        undone = sample.receipt.enqueue(8)
        transaction.set_rollback(True, using=alias)
    assert len(place.sent) == 1
    assert not IdempotencyKey.objects.using(alias).filter(task_id=undone.id).exists()


def test_a_duplicate_under_the_key_gets_the_result_of_the_call_that_has_the_work(
    place: Place, shop: Counter
) -> None:
    accepted = sample.charge.enqueue(7, "9.90")
    duplicate = sample.charge.enqueue(order=7, amount="9.90")
    assert (duplicate.id, duplicate.status) == (accepted.id, TaskResultStatus.READY)
    assert place.deliver().result == "7: 9.90"
    again = sample.charge.enqueue(7, "9.90")
    assert (again.id, again.status, again.return_value) == (
        accepted.id,
        TaskResultStatus.SUCCESSFUL,
        "7: 9.90",
    )
    assert (len(place.sent), len(shop.effects), len(shop.refusals)) == (0, 1, 2)
    row: Any = get_key(place.till.tasks[sample.charge.module_path], (7, "9.90"))
    assert row.task_id == accepted.id


def test_a_duplicate_may_be_an_error_and_other_arguments_under_a_key_are_one(place: Place) -> None:
    strict: Any = place.till.tasks[sample.charge.module_path]
    before = strict.idempotency_policy
    try:
        idempotent(on_duplicate="raise", fingerprint="amount")(sample.charge)
        sample.charge.enqueue(7, "9.90")
        with pytest.raises(DuplicateTask):
            sample.charge.enqueue(7, "9.90")
        with pytest.raises(KeyReused):
            sample.charge.enqueue(7, "1.00")
    finally:
        idempotent(on_duplicate="skip", fingerprint=before.key_rules.fingerprint)(sample.charge)
        delattr(sample.charge.func, "__idempotent_options__")
        idempotent(key="order", max_retries=2, default_retry_delay=0)(sample.charge)


def test_only_what_was_enqueued_is_announced(place: Place) -> None:
    told: list[str] = []

    def note(task_result: Any, **_kwargs: object) -> None:
        assert task_result.status == TaskResultStatus.READY
        told.append(task_result.id)

    task_enqueued.connect(note)
    try:
        accepted = sample.charge.enqueue(7, "9.90")
        sample.charge.enqueue(7, "9.90")
    finally:
        task_enqueued.disconnect(note)
    assert told == [accepted.id]
    assert len(place.sent) == 1


@pytest.mark.parametrize("bad", [object(), {1, 2}, timezone.now()])
def test_arguments_that_are_no_json_are_refused_before_anything_is_written(
    place: Place, shop: Counter, bad: object
) -> None:
    with pytest.raises(TypeError, match="Unsupported type"):
        sample.receipt.enqueue(bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        sample.receipt.enqueue(1, nobody="knows this")  # type: ignore[call-arg]
    assert (shop.state, place.sent) == (None, [])


def test_a_time_far_away_waits_in_the_ledger_and_a_near_one_travels(place: Place, shop: Counter) -> None:
    soon, late = (timezone.now() + timedelta(seconds=after) for after in (60, 3600))
    sample.receipt.using(run_after=soon).enqueue(1)
    (sent,) = place.sent
    assert sent["eta"] == soon.isoformat()
    shop.clear()
    sample.receipt.using(run_after=late).enqueue(2)
    assert len(place.sent) == 1
    assert shop.row.due_at is not None
    assert abs(shop.row.due_at.replace(tzinfo=soon.tzinfo) - late) < timedelta(seconds=5)


def _stored(alias: str, result: Any) -> Message:
    row = IdempotencyKey.objects.using(alias).get(task_id=result.id)
    return Message.decode(row.task, row.message or "")


def test_queue_and_priority_travel_with_the_message(place: Place, alias: str) -> None:
    usual = sample.receipt.enqueue(1)
    urgent = sample.receipt.using(queue_name="mail", priority=100).enqueue(2)
    options = [_stored(alias, each).options for each in (usual, urgent)]
    middle, most = (priority_for(each, place.till) for each in (0, 100))
    assert [(each.get("queue"), each["priority"]) for each in options] == [(None, middle), ("mail", most)]
    result = sample.receipt.get_result(urgent.id)
    assert (result.task.queue_name, result.task.priority) == ("mail", 100)


@pytest.mark.parametrize(
    ("broker", "highest", "usual", "lowest"),
    [("amqp://", 9, 4, 0), ("redis://", 0, 4, 9), ("rediss://", 0, 4, 9), ("sentinel://", 0, 4, 9)],
)
def test_the_most_urgent_is_what_the_broker_takes_first(
    monkeypatch: pytest.MonkeyPatch, broker: str, highest: int, usual: int, lowest: int
) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", broker)
    app = Celery("priorities", set_as_current=False)
    assert [priority_for(each, app) for each in (100, 0, -100)] == [highest, usual, lowest]


def test_a_task_is_checked_as_django_checks_it(place: Place) -> None:  # noqa: ARG001
    with pytest.raises(InvalidTask, match="Queue 'post' is not valid"):
        sample.receipt.using(queue_name="post")
    with pytest.raises(InvalidTask, match="aware"):
        sample.receipt.using(run_after=timezone.now().replace(tzinfo=None))
    with pytest.raises(InvalidTask, match="whole number"):
        sample.receipt.using(priority=101)


def test_options_of_a_wrong_kind_name_their_remedy(place: Place) -> None:
    with pytest.raises(ConfigurationError, match="no 'queue': give queue_name"):
        idempotent(queue="mail")
    with pytest.raises(ConfigurationError, match="its decorator takes the options"):
        idempotent(key="order")(place.till.tasks[sample.receipt.module_path])
    idempotent(key="ordr")(sample.book)
    try:
        with pytest.raises(ConfigurationError, match="it has: order"):
            sample.book.enqueue(7)
    finally:
        delattr(sample.book.func, "__idempotent_options__")
        idempotent(mode="atomic")(sample.book)


def test_a_name_that_a_celery_task_has_already_is_told_of(place: Place) -> None:
    name = sample.receipt.module_path
    ours = place.till.tasks.pop(name)
    place.till.task(name=name, shared=False)(sample.returning.func)
    try:
        with pytest.raises(ConfigurationError, match="give the Celery task another name="):
            task_backends["default"].redeclare(sample.receipt)  # type: ignore[attr-defined]
    finally:
        place.till.tasks[name] = ours


async def _enqueued() -> Any:
    result = await sample.receipt.aenqueue(7)
    await result.arefresh()
    return await sample.receipt.aget_result(result.id)


def test_an_asynchronous_caller_enqueues_and_reads_as_well(place: Place) -> None:
    from asgiref.sync import async_to_sync  # noqa: PLC0415

    result = async_to_sync(_enqueued)()
    assert result.status == TaskResultStatus.READY
    assert len(place.sent) == 1


def test_in_eager_mode_the_task_has_run_when_it_is_enqueued(place: Place, shop: Counter) -> None:
    place.till.conf.task_always_eager = True
    result = sample.receipt.enqueue(7, to="x@y.example")
    assert (result.status, result.return_value) == (
        TaskResultStatus.SUCCESSFUL,
        {"order": 7, "to": "x@y.example"},
    )
    assert (result.args, result.kwargs, result.attempts) == ([7], {"to": "x@y.example"}, 1)
    assert shop.state is State.SUCCEEDED
