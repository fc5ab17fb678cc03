"""What a run wants to record after its rollback is void when the key has moved on since."""

from __future__ import annotations

import pytest

from django_idempotent_tasks.states import State
from tests.deaths.atomic.verdicts import done_once, visitor
from tests.sample import atomic
from tests.support.network.delays import LateProxy
from tests.support.network.detour import port_of, url_through
from tests.support.waiting import eventually
from tests.support.workers.site import Site

pytestmark = [pytest.mark.process, pytest.mark.slow]


@pytest.mark.parametrize("first", ["raise", "retry", "reject"])
def test_an_end_that_is_recorded_late_leaves_a_later_run_alone(own_site: Site, key: str, first: str) -> None:
    """Between rollback and record nobody has the key: a copy runs, and asks for a retry that waits."""
    site = own_site
    raw = site.park(atomic.acting, key, [f"written: {first}", "written: wait and retry"])
    with (
        LateProxy(port_of(site)) as proxy,
        site.running(f"late-{first}", DATABASE_URL=url_through(proxy, site)),
    ):
        proxy.hold_answers_to(b"ROLLBACK")
        site.broker.deliver(raw)
        eventually(lambda: proxy.held, "the rollback is carried out, and not answered")
        with site.running(f"other-{first}") as other:
            site.broker.deliver(raw, redelivered=True)
            visitor(site, key, number=2)
            other.terminate()
            other.wait_for_log("Warm shutdown")
            site.journal.open(f"{key}.2")
            other.wait()
        assert site.rows.row(key).state == State.RETRY
        proxy.answer()

        done_once(site, key, starts=3, crashes=0)
