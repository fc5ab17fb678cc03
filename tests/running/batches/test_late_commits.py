"""A COMMIT that reaches PostgreSQL after its sender has gone on takes nothing back of what was done since."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.batches import APPS, Desk, done, outcomes, texts, write
from tests.support.deliveries import ALIASES
from tests.support.network.holding import Holding

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
]


@pytest.mark.parametrize("arrives_at", [2, 3])
def test_the_commit_of_a_record_that_arrives_after_others_takes_nothing_back(
    desk: Desk, line: Holding, arrives_at: int
) -> None:
    def body(task: Any, records: list[Any]) -> None:
        for record in task.idempotency.records(records):
            is_first = task.idempotency.attempt == 1
            line.is_armed = is_first and record.index == 1
            if is_first and record.index == arrives_at:
                line.deliver()
            with record:
                write(record.value)

    desk.submit(desk.chunked(body), texts(5))
    desk.run()
    assert (sorted(done()), outcomes()) == (texts(5), ["ooooo"])
