"""What cannot be reserved is refused in the caller without a trace; what nobody can run is given up, late."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from celery import Celery
from django.db import DatabaseError, connections, transaction
from django.test import override_settings

from django_idempotent_tasks import ConfigurationError, DuplicateTask, IdempotentTask, InvalidKey
from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.sqlite import SqliteStore
from django_idempotent_tasks.ledger.values import Call as AcceptedCall
from django_idempotent_tasks.models import DeadLetter, FailedJob, IdempotencyKey
from django_idempotent_tasks.operations.dead_letters import redrive
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.worker.hooks import _on_revoked, _on_unknown
from tests.running.delivery.test_broken_transactions import terminate
from tests.support.post import Post, only_row

APPS = ["django_idempotent_tasks"]
pytestmark = pytest.mark.django_db(transaction=True, available_apps=APPS)

Call = Callable[..., Any]
each_call = pytest.mark.parametrize(
    "call",
    [lambda task, *args: task.delay(*args), lambda task, *args: task.submit(args)],
    ids=["delay", "submit"],
)


def pay(order_id: int, card: Any = None) -> None:
    """Not run here."""


def nothing_happened(post: Post) -> bool:
    return not IdempotencyKey.objects.exists() and post.arrived() == []


@each_call
def test_a_task_with_sensitive_arguments_cannot_be_reserved(post: Post, call: Call) -> None:
    with pytest.raises(ConfigurationError, match="sensitive"):
        call(post.task(pay, sensitive=("card",)), 7)
    assert nothing_happened(post)


def test_a_task_with_sensitive_arguments_cannot_be_submitted(post: Post) -> None:
    with pytest.raises(ConfigurationError, match="sensitive"):
        post.task(pay, sensitive=("card",), reserve=False).submit((7,))
    assert nothing_happened(post)


def test_a_task_that_is_not_guarded_cannot_be_submitted() -> None:
    app: Any = Celery(task_cls=IdempotentTask, set_as_current=False)
    task = app.task(pay, name="shop.plain", shared=False)
    with pytest.raises(ConfigurationError, match="guarded"):
        task.submit((7,))


@each_call
def test_a_call_above_max_payload_is_refused(post: Post, call: Call) -> None:
    with override_settings(IDEMPOTENT_TASKS={"MAX_PAYLOAD": 1000}):
        task = post.task(pay)
        with pytest.raises(ConfigurationError, match="MAX_PAYLOAD"):
            call(task, 7, "x" * 1000)
    assert nothing_happened(post)


def test_a_call_that_is_not_json_is_refused(post: Post) -> None:
    with pytest.raises(ConfigurationError, match="JSON"):
        post.task(pay, serializer="pickle").apply_async((7,), headers={"raw": object()})
    assert nothing_happened(post)


@pytest.mark.parametrize(
    "value",
    [
        {"__type__": "zzz", "__value__": 1},
        {"__type__": "uuid", "__value__": {"x": 1}},
        {"__type__": "bytes", "__value__": 1},
        [{"deep": {"__type__": "datetime", "__value__": "tomorrow"}}],
    ],
    ids=repr,
)
def test_a_call_that_could_not_be_read_again_is_refused(post: Post, value: Any) -> None:
    task = post.task(pay)
    for call in (task.apply_async, task.submit):
        with pytest.raises(InvalidKey, match="argument 'card'"):
            call((7, value))
        with pytest.raises(ConfigurationError, match="__type__"):
            call((7,), headers={"x": value})
    assert nothing_happened(post)


def test_what_only_looks_like_an_encoded_object_is_sent(post: Post) -> None:
    value = {"__type__": "zzz", "more": 1}
    post.task(pay).delay(7, value)
    assert [message["args"] for message in post.arrived()] == [[7, value]]


@pytest.mark.parametrize("text", ['{"__type__": "uuid", "__value__": {"x": 1}}', "[" * 100_000, "{"])
def test_a_stored_message_that_cannot_be_read_does_not_stop_the_sweeper(post: Post, text: str) -> None:
    """A worker stores what it was sent, and not only by us."""
    task = post.task(pay)
    task.delay(7)
    task.delay(8)
    post.arrived()
    IdempotencyKey.objects.filter(key_text="order_id=7").update(message=text)
    post.sweep()
    assert [message["args"] for message in post.arrived()] == [[8]]


@pytest.mark.parametrize("reserve", [True, False])
@pytest.mark.parametrize("task_id", [UUID(int=7), 5, "\ud800", "a\0b", "x" * 256], ids=ascii)
def test_a_task_id_that_the_ledger_cannot_hold_is_refused(post: Post, task_id: Any, reserve: bool) -> None:
    task = post.task(pay, reserve=reserve)
    for call in (task.apply_async, task.submit):
        with pytest.raises(InvalidKey, match="task id"):
            call((7,), task_id=task_id)
    assert nothing_happened(post)


def test_a_refused_call_leaves_the_callers_transaction_usable(post: Post) -> None:
    task = post.task(pay)
    with transaction.atomic():
        for task_id in ("x" * 256, "a\0b"):
            with pytest.raises(InvalidKey):
                task.apply_async((7,), task_id=task_id)
        with pytest.raises(ConfigurationError):
            task.apply_async((7,), headers={"raw": object()})
        task.delay(8)
    assert [message["args"] for message in post.arrived()] == [[8]]


def test_contradictory_time_limits_are_refused_as_celery_does(post: Post) -> None:
    with pytest.raises(ValueError, match="soft_time_limit"):
        post.task(pay, soft_time_limit=10, time_limit=5).delay(7)
    assert nothing_happened(post)


@pytest.mark.parametrize("on_duplicate", ["skip", "replay"])
def test_without_anybody_to_name_a_duplicate_is_an_error(
    post: Post, monkeypatch: pytest.MonkeyPatch, on_duplicate: str
) -> None:
    """The other transaction that holds the key is not seen; submit says so and does not raise."""
    monkeypatch.setattr(f"{type(get_store()).__module__}.PostgresStore.reserve_new", lambda *_, **__: None)
    monkeypatch.setattr("django_idempotent_tasks.ledger.ledger.LONGEST_HOLD", 0.0)
    task = post.task(pay, on_duplicate=on_duplicate)
    with pytest.raises(DuplicateTask) as caught:
        task.delay(7)
    assert (caught.value.reason, caught.value.task_id) == ("in_progress", "")
    submission = task.submit((7,))
    assert (submission.created, submission.result, submission.state) == (False, None, State.PENDING)
    assert post.arrived() == []


# -- a task that no worker knows --


def refuse(post: Post) -> int:
    """Let a worker refuse the messages that wait, as Celery reports it."""
    messages = post.arrived()
    for message in messages:
        _on_unknown(name=message["task"], id=message["id"], message=SimpleNamespace(headers=message))
    return len(messages)


def give_up(post: Post, *, begin: int = 0) -> None:
    """Refuse it ten times; the clock goes on from ``begin`` seconds."""
    for refusal in range(1, 11):
        assert only_row().state == State.PENDING, f"after {refusal - 1} refusals"
        assert refuse(post) == 1
        post.sweep(after=begin + 3700 * refusal)


def test_a_task_that_no_worker_knows_fails_after_ten_refusals_and_not_before(post: Post) -> None:
    post.task().delay(7)
    give_up(post)
    row = only_row()
    assert (row.state, row.reason) == (State.FAILED, Reason.PERMANENT)
    assert "shop.charge" in str(row.result)
    assert post.arrived() == []


def test_a_redrive_of_a_task_that_is_gone_leaves_one_dead_letter_again(post: Post) -> None:
    post.task().delay(7)
    give_up(post)
    dead = only_row()
    assert redrive(get_store(), dead, by="ann").done
    post.sweep(after=40_000)
    give_up(post, begin=40_000)
    assert DeadLetter.objects.get().task_id == dead.task_id
    assert [job.state for job in FailedJob.objects.all()] == [State.FAILED] * 2


def test_a_worker_that_knows_the_task_meanwhile_runs_it(post: Post) -> None:
    charge = post.task()
    charge.delay(7)
    for times in range(1, 9):
        refuse(post)
        post.sweep(after=3700 * times)
    post.work(charge)
    assert only_row().state == State.SUCCEEDED


def test_an_unknown_message_of_another_call_or_without_a_header_changes_nothing(post: Post) -> None:
    post.task().delay(7)
    IdempotencyKey.objects.update(sends=20, task_id="another")
    assert refuse(post) == 1
    _on_unknown(name="shop.charge", id="x", message=SimpleNamespace(headers=None))
    assert only_row().state == State.PENDING


# -- what a worker drops because it was revoked --


def drop(post: Post, charge: Any, **how: bool) -> None:
    (message,) = post.arrived()
    header = {"idempotency": message["idempotency"]}
    request = SimpleNamespace(headers=header, id=message["id"], args=message["args"], kwargs={})
    _on_revoked(charge, request, **how)


@pytest.mark.parametrize("state", [State.PENDING, State.RETRY])
def test_a_revoked_message_cancels_a_call_that_waits(post: Post, state: State) -> None:
    charge = post.task()
    charge.delay(7)
    IdempotencyKey.objects.update(state=state)
    drop(post, charge)
    assert only_row().state == State.CANCELLED


def test_a_revoked_copy_leaves_the_delivery_alone_that_runs_meanwhile(post: Post) -> None:
    charge = post.task()
    charge.delay(7)
    claim(charge)
    drop(post, charge)
    assert only_row().state == State.RUNNING


def test_a_terminated_delivery_cancels_its_key(post: Post) -> None:
    charge = post.task()
    charge.delay(7)
    claim(charge)
    drop(post, charge, terminated=True)
    assert only_row().state == State.CANCELLED


@pytest.mark.postgresql
def test_what_a_server_that_closes_idle_connections_has_cut_costs_no_end(post: Post) -> None:
    charge = post.task()
    charge.delay(7)
    terminate("default")
    drop(post, charge)
    connections["default"].close()
    assert only_row().state == State.CANCELLED


def claim(charge: Any) -> None:
    row = only_row()
    call = AcceptedCall(Identity(row.digest, None, row.key_text, None), charge.name, row.task_id, None)
    assert get_store().claim_reserved(call, owner="elsewhere", lease=60) is not None


def bare() -> Any:
    """A connection to a database without tables."""
    connection = connections["sqlite"].copy()
    connection.settings_dict["NAME"] = ":memory:"
    return connection


@pytest.mark.django_db(transaction=True, databases=["default", "sqlite"], available_apps=APPS)
@pytest.mark.parametrize("alias", ["default", "sqlite"])
def test_a_ledger_without_tables_is_an_error_that_says_what_to_run(alias: str, post: Post) -> None:
    with override_settings(IDEMPOTENT_TASKS={"SCHEMA": "pg_toast"}):  # which has none of ours
        if alias == "default":
            with pytest.raises(DatabaseError) as error:
                post.task(pay).delay(7)
        else:
            with closing(bare()) as connection, pytest.raises(DatabaseError) as error:
                SqliteStore(connection).read(UUID(int=8), task_id="A")
    assert error.value.__notes__ == [
        f"Are the ledger's tables there? Run 'manage.py migrate --database {alias}'."
    ]


@pytest.mark.django_db(transaction=True, available_apps=APPS)
def test_a_right_that_is_missing_is_not_taken_for_a_missing_table(post: Post) -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute("CREATE ROLE idem_without_rights")
        cursor.execute("SET ROLE idem_without_rights")
        try:
            with pytest.raises(DatabaseError) as error:
                post.task(pay).delay(7)
        finally:
            cursor.execute("RESET ROLE")
            cursor.execute("DROP ROLE idem_without_rights")
    (said,) = error.value.__notes__
    assert "grant it SELECT, INSERT, UPDATE and DELETE" in said
    assert "migrate" not in said
