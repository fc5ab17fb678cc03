"""A call whose key another call has taken over, and failed with: it is told of that end."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks import ManualReview, PermanentError, RecordedError
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.states import State
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)


@pytest.mark.parametrize("error", [PermanentError("no"), ManualReview("look")], ids=["failed", "review"])
def test_a_call_learns_of_the_end_that_another_call_s_run_of_its_key_had(
    till: Till, shop: Counter, error: Exception
) -> None:
    """Nobody else would report for its id: its caller, or its chord, would wait for ever."""

    @till.guarded(mode="leased")
    def sell(task: Any, order: int) -> None:
        shop.sell(task)
        if shop.runs > 1:
            raise error
        with shifted(10_000):  # its lease is over
            assert till.deliver(sell, order, id="B").error is error

    assert till.deliver(sell, 7, id="A").is_ignored
    assert shop.state in {State.FAILED, State.REVIEW}
    (copy,) = till.sent
    assert copy.options["task_id"] == "A"
    assert isinstance(till.deliver_sent(sell).error, RecordedError)
    assert (shop.runs, till.sent) == (2, [])
