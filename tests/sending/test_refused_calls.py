"""What cannot be reserved is refused in the caller without a trace."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any
from uuid import UUID

import pytest
from celery import Celery
from django.db import DatabaseError, connections, transaction
from django.test import override_settings

from django_idempotent_tasks import ConfigurationError, DuplicateTask, IdempotentTask, InvalidKey
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.sqlite import SqliteStore
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.support.post import Post

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
    monkeypatch.setattr("django_idempotent_tasks.ledger.reserving.LONGEST_HOLD", 0.0)
    task = post.task(pay, on_duplicate=on_duplicate)
    with pytest.raises(DuplicateTask) as caught:
        task.delay(7)
    assert (caught.value.reason, caught.value.task_id) == ("in_progress", "")
    submission = task.submit((7,))
    assert (submission.created, submission.result, submission.state) == (False, None, State.PENDING)
    assert post.arrived() == []


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
