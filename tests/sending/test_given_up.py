"""What no worker knows is given up late, and what a worker drops as revoked is cancelled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connections

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.values import Call as AcceptedCall
from django_idempotent_tasks.models import DeadLetter, FailedJob, IdempotencyKey
from django_idempotent_tasks.operations.dead_letters import redrive
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.worker.hooks import _on_revoked, _on_unknown
from tests.support.ledger.backends import cut
from tests.support.post import Post, only_row

APPS = ["django_idempotent_tasks"]
pytestmark = pytest.mark.django_db(transaction=True, available_apps=APPS)


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
    cut("default")
    drop(post, charge)
    connections["default"].close()
    assert only_row().state == State.CANCELLED


def claim(charge: Any) -> None:
    row = only_row()
    call = AcceptedCall(Identity(row.digest, None, row.key_text, None), charge.name, row.task_id, None)
    assert get_store().claim_reserved(call, owner="elsewhere", lease=60) is not None
