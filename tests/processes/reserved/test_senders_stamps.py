"""What a sender stamps on a reserved call reaches the body, whichever process publishes the call later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery.signals import before_task_publish

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.operations import dead_letters
from django_idempotent_tasks.states import State
from tests.processes.reserved.shop import Shop
from tests.processes.reserved.stamped import STAMPS, serve, stamp, tenant
from tests.support.waiting import eventually

pytestmark = pytest.mark.process

ACME = dict.fromkeys(STAMPS, "acme")


@pytest.fixture(autouse=True)
def _stamping() -> Iterator[None]:
    before_task_publish.connect(stamp)
    yield
    before_task_publish.disconnect(stamp)


def seen(shop: Shop, key: str, *, run: int = 1) -> dict[str, Any]:
    """The stamps that a run of the body found."""
    entry = shop.site.journal.started(key, attempt=run, within=60)
    return {name: entry[name] for name in STAMPS}


def as_acme(call: Callable[[], Any]) -> None:
    """Serve a request of that tenant."""
    token = tenant.set("acme")
    try:
        call()
    finally:
        tenant.reset(token)


def test_a_call_that_the_broker_lost_and_a_redriven_one_carry_the_stamps_of_their_sender(
    shop: Shop, key: str
) -> None:
    lost, submitted, dead = f"{key}-lost", f"{key}-submitted", f"{key}-dead"
    as_acme(lambda: serve.delay(lost))
    as_acme(lambda: serve.submit((submitted,)))
    as_acme(lambda: serve.delay(dead, fails=True))
    shop.site.broker.clear()
    with shop.site.running(
        "other",
        "--include",
        "tests.processes.reserved.stamped",
        **shop.environment,
        PROJ_RESULT_BACKEND="disabled://",
    ):
        for each in (lost, submitted, dead):
            assert seen(shop, each) == ACME
        failed = shop.keys(state=State.FAILED)
        eventually(failed.exists, "the call has failed", within=60)
        assert dead_letters.redrive(get_store(shop.site.rows.alias), failed.get(), by="somebody").done
        assert seen(shop, dead, run=2) == ACME
        shop.wait_until_done()
