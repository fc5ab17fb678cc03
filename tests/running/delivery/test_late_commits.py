"""A COMMIT that reaches PostgreSQL after its sender has gone on: what it carries is done once."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError

from django_idempotent_tasks.states import State
from tests.sample.models import Effect
from tests.support.deliveries import ALIASES, APPS
from tests.support.network.holding import Holding
from tests.support.till import Counter, Till

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
]
each_moment = pytest.mark.parametrize("arrives", ["inside", "behind"])


@each_moment
def test_a_step_that_is_taken_again_has_the_value_that_is_kept(
    till: Till, postgresql: Counter, line: Holding, arrives: str
) -> None:
    taken: list[int] = []

    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> int:  # noqa: ARG001
        def write(*, is_late: bool) -> int:
            written = Effect.objects.create(key="a", attempt=1, token=1)
            if is_late and arrives == "inside":
                line.deliver()
            return int(written.pk)

        line.is_armed = True
        with pytest.raises(OperationalError):
            self.idempotency.step("write", write, is_late=False)
        taken.append(self.idempotency.step("write", write, is_late=True))
        if arrives == "behind":
            line.deliver()
        return 1

    till.deliver(sell, 7)
    assert [each.pk for each in Effect.objects.all()] == taken
    assert postgresql.state == State.SUCCEEDED


@each_moment
def test_a_completion_that_is_begun_again_is_one(
    till: Till, postgresql: Counter, line: Holding, arrives: str
) -> None:
    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        line.is_armed = True
        with pytest.raises(OperationalError), self.idempotency.complete():
            postgresql.write()
        with self.idempotency.complete():
            postgresql.write()
            if arrives == "inside":
                line.deliver()
        if arrives == "behind":
            line.deliver()

    end = till.deliver(sell, 7)
    assert end.error is None
    assert (postgresql.state, len(postgresql.effects)) == (State.SUCCEEDED, 1)


def test_a_completion_that_arrives_after_another_attempt_s_is_refused(
    till: Till, postgresql: Counter, line: Holding
) -> None:
    @till.guarded(mode="leased", autoretry_for=(OperationalError,))
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        line.is_armed = self.idempotency.attempt == 1
        with self.idempotency.complete():
            postgresql.write()

    assert till.deliver(sell, 7).is_retried
    till.deliver_sent(sell)
    line.deliver()
    assert (postgresql.state, len(postgresql.effects)) == (State.SUCCEEDED, 1)
