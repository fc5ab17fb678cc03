"""Who leads, who stands by, and how the lead changes hands."""

from __future__ import annotations

from django_idempotent_tasks.beat import duty
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import Leader
from tests.beat.bench import Bench


def test_a_standby_sends_nothing_and_takes_over_when_the_lease_is_over(bench: Bench) -> None:
    bench.every(10)
    leader, standby = bench.beat(), bench.beat()
    bench.tick(leader)
    for _ in range(3):
        assert bench.tick(standby, after=5, leads=False) <= 5
    assert bench.sent() == []
    with shifted(duty.LEASE + 1):
        bench.tick(standby, leads=False)
    assert bench.sent() == [10]


def test_a_clean_stop_hands_the_lead_over_at_once(bench: Bench) -> None:
    leader, standby = bench.beat(), bench.beat()
    bench.tick(leader, leads=False)
    bench.tick(standby, leads=False)
    assert Leader.objects.get(name="beat").holder == leader.holder
    leader.close()
    bench.tick(standby, leads=False)
    assert Leader.objects.get(name="beat").holder == standby.holder
    leader.close()
    assert Leader.objects.get(name="beat").holder == standby.holder


def test_a_lease_that_was_lost_is_noticed_and_no_error(bench: Bench) -> None:
    first, second = bench.beat(), bench.beat()
    bench.tick(first, second)
    assert bench.tick(first, leads=False) == duty.STANDBY
    assert (first._leads, second._leads) == (False, True)


def test_the_rest_between_ticks_is_shorter_than_the_lease_whatever_was_configured(bench: Bench) -> None:
    bench.app.conf.beat_max_loop_interval = 300
    bench.every(3600)
    assert bench.tick(bench.beat()) <= duty.LEASE / 3
