"""What a call leaves in its process once it has ended: nothing that would wait for the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any
from weakref import ReferenceType, ref

import pytest

from django_idempotent_tasks.running.context import active
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

Seen = list[ReferenceType[Any]]


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Only what nothing refers to is freed."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def atomic(till: Till, shop: Counter, seen: Seen) -> Any:
    @till.guarded()
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        seen.extend((ref(active()), ref(self.request)))
        shop.sell(self)

    return sell


def completing(till: Till, shop: Counter, seen: Seen) -> Any:
    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        seen.extend((ref(active()), ref(self.request)))
        with self.idempotency.complete():
            shop.sell(self)

    return sell


def returning(till: Till, shop: Counter, seen: Seen) -> Any:
    @till.guarded(mode="leased")
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        seen.extend((ref(active()), ref(self.request)))
        shop.sell(self)

    return sell


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("kind", [atomic, completing, returning])
def test_a_call_that_has_ended_is_freed_at_once_and_its_request_with_it(
    till: Till, shop: Counter, kind: Callable[[Till, Counter, Seen], Any]
) -> None:
    seen: Seen = []
    till.deliver(kind(till, shop, seen), 7)
    assert len(seen) == 2
    # The heart's thread may look at its leases just now.
    eventually(lambda: [each() for each in seen] == [None, None], "nothing refers to the call any more")
