"""A worker's task that is called inside a transaction: a savepoint, and failures are known all the same."""

from __future__ import annotations

from typing import Any

import pytest
from celery.exceptions import Ignore, Reject
from django.db import connections, transaction

from django_idempotent_tasks import IdempotentTask, PermanentError
from django_idempotent_tasks.states import Reason, State
from tests.running.delivery.test_after_the_commit import heard
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


class Wrapped(IdempotentTask):
    """A project's own base class, whose calls are transactions."""

    abstract = True
    using = "default"
    #: Raised by the class itself, after the call.
    afterwards: Exception | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it in a transaction."""
        with transaction.atomic(using=self.using):
            Counter(self.using).write(note="outer")
            result = super().__call__(*args, **kwargs)
            if self.afterwards is not None:
                raise self.afterwards
            return result


def wrapped(till: Till, shop: Counter, errors: list[BaseException | None], **options: Any) -> Any:
    """A task that ends each run with the next of these errors."""

    @till.guarded(base=Wrapped, using=shop.alias, max_retries=3, **options)
    def sell(self: Any, order: int) -> int:
        shop.sell(self, "inner")
        error = errors.pop(0) if errors else None
        if isinstance(error, TimeoutError):
            raise self.retry(countdown=0)
        if error is not None:
            raise error
        return order

    return sell


def test_it_commits_with_the_outer_transaction(till: Till, shop: Counter) -> None:
    task = wrapped(till, shop, [])
    assert till.deliver(task, 7).result == 7
    assert (shop.state, shop.row.result, shop.effects) == (State.SUCCEEDED, "7", ["outer", "inner"])
    assert till.deliver(task, 7).result == 7
    assert till.deliver(task, 7, id="B").result["reason"] == "already_completed"
    assert shop.runs == 1


def test_it_is_undone_with_the_outer_transaction(till: Till, shop: Counter) -> None:
    task = wrapped(till, shop, [], afterwards=ValueError("after it"))
    assert isinstance(till.deliver(task, 7).error, ValueError)
    assert (shop.state, shop.effects) == (None, [])


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (ValueError("no"), State.FAILED, Reason.RETRIES_USED_UP),
        (PermanentError("no"), State.FAILED, Reason.PERMANENT),
        (SystemExit(3), State.FAILED, Reason.RETRIES_USED_UP),
        (Reject("no", requeue=False), State.FAILED, Reason.PERMANENT),
        (Reject("later", requeue=True), State.RETRY, Reason.RETRY_ASKED),
        (TimeoutError(), State.RETRY, Reason.RETRY_ASKED),
    ],
    ids=repr,
)
def test_a_failure_is_recorded_though_the_outer_transaction_rolls_back(
    till: Till, postgresql: Counter, error: BaseException, state: State, reason: Reason
) -> None:
    task = wrapped(till, postgresql, [error])
    with heard("key_claimed", "key_failed") as told:
        assert till.deliver(task, 7).error is not None
    assert told == (["key_failed"] if state is State.FAILED else [])
    row = postgresql.row
    assert (row.state, row.reason, row.attempts, row.token) == (state, reason, 1, 1)
    assert postgresql.effects == []
    assert [sent.row and sent.row.state for sent in till.sent] == (
        [State.RETRY] if isinstance(error, TimeoutError) else []
    )
    if till.sent:
        assert till.deliver_sent(task).result == 7
        assert (postgresql.state, postgresql.effects) == (State.SUCCEEDED, ["outer", "inner"])


def test_an_ignored_call_keeps_only_what_the_outer_transaction_keeps(till: Till, shop: Counter) -> None:
    task = wrapped(till, shop, [Ignore()])
    assert till.deliver(task, 7).is_ignored  # the class lets it roll the outer transaction back
    assert (shop.state, shop.effects) == (None, [])


@pytest.mark.slow  # the side connection waits for two seconds
@pytest.mark.parametrize("alias", ["sqlite"], indirect=True)
def test_where_one_writer_has_the_whole_database_the_failure_itself_is_still_told(
    till: Till, shop: Counter
) -> None:
    task = wrapped(till, shop, [ValueError("no")])
    end = till.deliver(task, 7)
    assert end.error is not None
    assert (shop.state, shop.effects) == (None, [])
    assert not connections[shop.alias].in_atomic_block
    assert till.deliver(task, 7).result == 7
    assert (shop.state, shop.effects) == (State.SUCCEEDED, ["outer", "inner"])


def test_a_redelivered_copy_needs_no_start_to_be_counted(till: Till, shop: Counter) -> None:
    assert till.deliver(wrapped(till, shop, []), 7, redelivered=True).result == 7
    assert (shop.row.attempts, shop.row.crashes) == (1, 0)
