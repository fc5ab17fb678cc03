"""Whatever a body takes and returns, and whatever becomes of the result backend, a key is settled once."""

from __future__ import annotations

import pytest

from django_idempotent_tasks import ResultNotStored
from django_idempotent_tasks.states import Reason, State
from tests.sample import endings, tasks
from tests.support.results import result_of
from tests.support.waiting import eventually
from tests.support.workers.site import Site

pytestmark = pytest.mark.process


@pytest.mark.usefixtures("pair")
@pytest.mark.parametrize("what", endings.STORABLE)
def test_a_result_comes_back_as_it_was(site: Site, key: str, what: str) -> None:
    first = result_of(site.send(endings.answering, key, what).id)
    again = result_of(site.send(endings.answering, key, what).id)

    assert type(again) is type(first)
    assert again == first
    assert site.journal.starts(key) == 1
    row = site.rows.row(key)
    assert (row.state, row.reason, row.attempts, row.token) == (State.SUCCEEDED, Reason.DONE, 1, 1)


@pytest.mark.usefixtures("pair")
@pytest.mark.parametrize("what", endings.UNSTORABLE)
def test_a_result_that_cannot_be_kept_still_completes_the_key(site: Site, key: str, what: str) -> None:
    site.send(endings.answering, key, what)
    row = site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.reason, row.result, row.attempts) == (Reason.RESULT_NOT_STORED, None, 1)
    site.broker.wait_until_empty()

    assert isinstance(result_of(site.send(endings.answering, key, what).id), ResultNotStored)
    assert site.journal.starts(key) == 1


@pytest.mark.usefixtures("pair")
@pytest.mark.parametrize(
    ("payload", "is_kept"),
    [
        ("x" * 1_000_000, True),
        ("x" * 2_000_000, False),
        ("nul \0 and half a pair \ud800", True),
        (endings.nested(100), True),
        ({"\0": ["\udfff", 2**70, -0.0, 1e300]}, True),
    ],
    ids=["1 MB", "2 MB", "text", "nested", "dict"],
)
def test_any_argument_arrives_and_its_key_is_settled_once(
    site: Site, key: str, payload: object, is_kept: bool
) -> None:
    call = site.send(endings.swallowing, key, payload, gated=True).id
    site.journal.started(key)
    assert (site.rows.row(key).message is not None) is is_kept
    site.journal.open(f"{key}.1")

    assert result_of(call) == len(str(payload))
    assert site.rows.wait_for(key, State.SUCCEEDED).attempts == 1
    assert len(site.rows.effects(key)) == 1


@pytest.mark.parametrize("backend", ["redis://127.0.0.1:9/0", "disabled://"], ids=["dead", "absent"])
def test_the_result_backend_changes_no_verdict(own_site: Site, key: str, backend: str) -> None:
    site = own_site
    raw = site.park(tasks.skipping, key)
    with site.running("backendless", PROJ_RESULT_BACKEND=backend):
        site.broker.deliver(raw)
        row = site.rows.wait_for(key, State.SUCCEEDED)
        assert row.result is not None
        for redelivered in (None, False, True):
            site.broker.deliver(raw, redelivered=redelivered)
        site.send(tasks.skipping, key)
        # A message that a worker has just taken is neither in the queue nor among the unacknowledged yet.
        eventually(lambda: site.rows.refusals(key), "the other call is refused")
        site.broker.wait_until_empty()

    assert site.journal.starts(key) == 1
    assert len(site.rows.effects(key)) == 1
    assert site.rows.refusals(key) == ["already_completed"]
