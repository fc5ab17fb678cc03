"""A parent counts the death of an atomic run though the database has not ended its transaction yet."""

from __future__ import annotations

import pytest

from django_idempotent_tasks.states import State
from django_idempotent_tasks.worker import deaths
from tests.races.staging import end, record
from tests.races.test_atomic_runs import Meeting
from tests.races.watch import watch
from tests.support.ledger.session import Session

__all__ = ["watch"]

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"]),
]


class TestADeath(Meeting):
    def test_is_counted_once_the_transaction_of_the_child_is_over(
        self, one: Session, two: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        call = self.call()
        self.begin_run(one, call)
        monkeypatch.setattr(deaths, "sleep", lambda _seconds: end(one, commits=False))
        deaths.record_soon(lambda: two.do(record(call)))
        assert (self.seen(call).state, self.seen(call).crashes) == (State.RETRY, 1)

    def test_is_left_to_the_next_run_where_that_takes_longer(
        self, one: Session, two: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        call, waited = self.call(), list[float]()
        self.begin_run(one, call)
        monkeypatch.setattr(deaths, "sleep", waited.append)
        deaths.record_soon(lambda: two.do(record(call)))
        assert sum(waited) < 0.5
        end(one, commits=True)
        assert self.seen(call).state is State.SUCCEEDED
