"""Time limits: the hard one kills a child whose body can no longer speak, the soft one strikes anywhere."""

from __future__ import annotations

import random

import pytest

from django_idempotent_tasks.states import State
from tests.deaths.leased.verdicts import done_once, failed_once, next_attempt
from tests.deaths.verdicts import NEXT_CLAIM_WITHIN, stamp
from tests.sample import death
from tests.support.results import result_of
from tests.support.staying import stays
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

HARD = {"time_limit": 1}
#: A lease of two seconds is over and was swept.
AFTER_THE_LEASE = 4.0


def test_bodies_ended_by_the_hard_limit_have_failed_and_are_not_run_again(
    site: Site, family: Worker, key: str
) -> None:
    keys = {
        f"{key}-{name}-{number}": (getattr(death, name), deed)
        for name in ("brief", "early_acked")
        for number, deed in enumerate(("wait", "hold the interpreter"))
    }
    calls = {each: site.send(task, each, [deed], options=HARD).id for each, (task, deed) in keys.items()}

    for each, call in calls.items():
        failed_once(site, each, attempts=1, crashes=0, error="TimeLimitExceeded")
        assert type(result_of(call)).__name__ == "TimeLimitExceeded"
    stays(
        lambda: (
            {(site.rows.row(each).state, site.journal.starts(each)) for each in keys} == {(State.FAILED, 1)}
        ),
        "failed, not retried",
        seconds=AFTER_THE_LEASE,
    )
    assert family.is_alive


def test_a_child_that_still_completes_after_its_hard_limit_is_refused(
    site: Site, family: Worker, key: str
) -> None:
    site.send(death.acting, key, ["complete when stopped"], options=HARD)

    assert site.journal.wait_for("refused", key)["attempt"] == 1
    failed_once(site, key, attempts=1, crashes=0, error="TimeLimitExceeded")
    assert site.journal.starts(key) == 1
    assert family.is_alive


@pytest.mark.parametrize("deed", ["wait", "hold the interpreter"])
def test_a_body_whose_message_survives_the_hard_limit_runs_again_at_once_and_has_crashed(
    site: Site, family: Worker, key: str, deed: str
) -> None:
    site.send(death.requeued_on_timeout, key, [deed], options=HARD)

    first = site.journal.started(key)
    second = next_attempt(site, key, died=True)
    assert second["at"] - first["at"] < 1 + NEXT_CLAIM_WITHIN
    done_once(site, key, attempts=2, crashes=1)
    assert family.is_alive


def test_a_body_ended_by_the_soft_limit_has_failed(site: Site, family: Worker, key: str) -> None:
    call = site.send(death.acting, key, ["wait"], options={"soft_time_limit": 1}).id

    failed_once(site, key, attempts=1, crashes=0, error="SoftTimeLimitExceeded")
    assert type(result_of(call)).__name__ == "SoftTimeLimitExceeded"
    assert site.journal.started(key)["pid"] in family.children()


def test_a_query_of_the_body_keeps_its_lease_until_a_limit_ends_it(
    site: Site, family: Worker, key: str
) -> None:
    site.send(death.brief, key, ["query"], options={"time_limit": 5})
    start = site.journal.started(key)
    eventually(lambda: stamp(site.rows.row(key).open_at) - start["at"] > 5, "the lease was kept", every=0.1)

    failed_once(site, key, attempts=1, crashes=0, error="TimeLimitExceeded")
    assert site.journal.starts(key) == 1
    assert family.is_alive


def test_a_soft_limit_above_the_hard_one_is_refused_when_it_is_sent(site: Site, key: str) -> None:
    with pytest.raises(ValueError, match="soft_time_limit must be less than or equal to time_limit"):
        site.send(death.contradictory, key, [])
    assert site.broker.is_empty()
    assert site.rows.find(key) is None


def test_a_soft_limit_may_strike_at_any_moment_and_leaves_no_key_half_done(
    site: Site, family: Worker, key: str
) -> None:
    for child in range(8):
        site.send(death.acting, f"{key}-first-{child}", [])
    site.broker.wait_until_empty()
    moment = random.Random(7)
    keys = [f"{key}-{number}" for number in range(200)]
    for each in keys:
        site.send(death.acting, each, [], options={"soft_time_limit": moment.uniform(0.002, 0.06)})
    site.broker.wait_until_empty(within=60)

    rows = {each: row for each in keys if (row := site.rows.find(each))}
    ended = {State.SUCCEEDED, State.FAILED}
    assert [(row.task_id, row.state) for row in rows.values() if row.state not in ended] == []
    assert {row.state for row in rows.values()} == ended, (
        "the limits struck too early or too late to be a test"
    )
    for each, row in rows.items():
        assert len(site.rows.effects(each)) == (row.state == State.SUCCEEDED), each
    assert all(row.crashes == 0 for row in rows.values())
    assert family.is_alive
