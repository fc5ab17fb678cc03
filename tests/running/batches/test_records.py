"""The records of a chunk: each in a transaction of its own with its outcome, and each once."""

from __future__ import annotations

import pytest

from tests.support.batches import APPS, Desk, done, failures, outcomes, texts
from tests.support.deliveries import ALIASES

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
    pytest.mark.usefixtures("alias"),
]


def test_each_record_is_done_once_and_the_callback_is_called_with_the_batch(desk: Desk) -> None:
    batch = desk.submit(desk.registering(), texts(12))
    assert (batch.created, batch.state, batch.progress) == (True, "running", 0.0)
    assert batch.chunks == {"open": 3, "ended": 0, "needs_attention": 0, "discarded": 0, "cancelled": 0}
    desk.run()
    assert done() == texts(12)
    assert outcomes() == ["ooooo", "ooooo", "oo"]
    assert (desk.finished, desk.attention) == ([str(batch.id)], [])
    assert batch.refresh().state == "finished"
    assert batch.counts == {
        "ok": 12, "fatal": 0, "retryable": 0, "manual_review": 0, "expected": 0, "open": 0, "dropped": 0
    }  # fmt: skip
    assert batch.progress == 1.0
    assert failures() == []
