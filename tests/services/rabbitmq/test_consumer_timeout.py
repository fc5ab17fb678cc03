"""RabbitMQ closes the channel of a worker that does not acknowledge for too long: the body is run once."""

from __future__ import annotations

from typing import Any

import pytest

from django_idempotent_tasks.states import State
from tests.sample import atomic, death
from tests.services.rabbitmq.conftest import ENVIRONMENT, Ground
from tests.support.brokers.vhost import Vhost
from tests.support.staying import stays
from tests.support.waiting import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow]

#: Seconds: of the leased one.
LEASE = 2

MODES: dict[str, tuple[Any, str]] = {
    "leased": (death.brief, "wait"),
    "atomic": (atomic.acting, "written: wait"),
    "reserved": (atomic.reserved, "written: wait"),
}


@pytest.fixture(autouse=True)
def _undisturbed(alone: None) -> None:
    """Not beside others: a channel that they open meanwhile would be closed at their next look, too."""


@pytest.mark.parametrize("kind", [pytest.param("classic", marks=pytest.mark.long), "quorum"])
@pytest.mark.parametrize("mode", ["leased", "atomic", pytest.param("reserved", marks=pytest.mark.long)])
def test_a_body_that_outlasts_the_acknowledgement_timeout_runs_once(
    ground: Ground, vhost: Vhost, key: str, kind: str, mode: str
) -> None:
    site, (task, wait) = ground(kind, "timeout"), MODES[mode]
    owner = site.worker("owner", "--concurrency", "2", **ENVIRONMENT)
    with vhost.acknowledging_within(1000):
        owner.start()
    task.delay(key, [wait])
    eventually((site.directory / f"{key}.1.visited").exists, "the body waits")
    other = site.worker("other", "--concurrency", "2", **ENVIRONMENT).start()

    def is_closed() -> bool:
        vhost.look_at_acknowledgements()
        return "PRECONDITION_FAILED" in owner.text()

    eventually(is_closed, "the channel is closed", every=0.5)
    other.wait_for_log(f"{task.name}[")  # the message, delivered again
    stays(lambda: site.journal.starts(key) == 1, "it is not begun again", seconds=LEASE + 1)
    site.journal.open(f"{key}.1")

    site.rows.wait_for(key, State.SUCCEEDED)
    assert owner.wait() != 0, "Celery ends a worker whose channel is closed, after its bodies"
    site.broker.wait_until_empty()
    assert (site.journal.starts(key), len(site.rows.effects(key))) == (1, 1)
