"""Orders that are reserved together with a business row, and what became of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import transaction
from django.db.models import QuerySet

from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.messages.relay import collapse, relay
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.sweep import Swept, sweep_bite
from tests.sample.celery import app
from tests.sample.models import Effect
from tests.sample.reserving import ordering
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker
from tests.support.workers.site import Site

#: Seconds after which the sweeper sends again what was not claimed.
REPUBLISH_AFTER = 3
ORDERED = "ordered"


class RollbackError(Exception):
    """What ends a request that fails after it has sent something."""


def forget_connections() -> None:
    """Let this process's relay begin anew, as in a new process."""
    while relay._idle:
        collapse(relay._idle.pop()[1])
    relay.forget()


@dataclass
class Shop:
    """What a test does to it, and looks at; ``options`` are those of ``apply_async``."""

    site: Site
    environment: Mapping[str, str]
    options: Mapping[str, Any]
    committed: list[str] = field(default_factory=list)

    def worker(self, name: str, *arguments: str, **environment: str) -> Worker:
        """A worker of the shop, not yet started; its results go nowhere."""
        variables = {"PROJ_RESULT_BACKEND": "disabled://", **self.environment, **environment}
        return self.site.worker(name, *arguments, **variables)

    @contextmanager
    def sending_to(self, url: str) -> Iterator[None]:
        """Let this process send there, on new connections; it forgets that sending may have failed."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CELERY_BROKER_URL", url)  # which Celery prefers to its configuration
            forget_connections()
            yield
        forget_connections()

    def order(self, key: str, *, gated: bool = False) -> str:
        """Write an order and reserve its task, in one transaction; the accepted call."""
        with self.transaction():
            Effect.objects.using(self.site.rows.alias).create(key=key, attempt=0, token=0, note=ORDERED)
            call = ordering.apply_async((key,), {"gated": gated}, **self.options)
        self.committed.append(key)
        return str(call.id)

    def seconds_to_order(self, key: str) -> float:
        """How long a request takes that orders."""
        began = time.monotonic()
        self.order(key)
        return time.monotonic() - began

    def fail_to_order(self, key: str) -> None:
        """The same as an order, and then the request fails."""
        with suppress(RollbackError), self.transaction():
            ordering.apply_async((key,), **self.options)
            raise RollbackError

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction on the shop's database."""
        with transaction.atomic(using=self.site.rows.alias):
            yield

    def sweep(self, after: int = 0) -> Swept:
        """One bite, as it would be so many seconds from now."""
        with shifted(after), get_store(self.site.rows.alias).side_connection() as store:
            return sweep_bite(app, store)

    def seconds_to_sweep(self) -> float:
        """How long one bite takes."""
        began = time.monotonic()
        self.sweep()
        return time.monotonic() - began

    def wait_until_done(self, *, within: float = 60) -> None:
        """Wait until every key has ended."""
        live = self.live()
        try:
            eventually(lambda: not live.exists(), "every order is done", within=within, every=0.2)
        except AssertionError as error:
            left = list(live.values_list("key_text", "state", "attempts", "sends", "due_at")[:10])
            raise AssertionError(f"{error}; {self.site.broker.waiting()} messages, {left}") from None

    def wait_for_looks(self, number: int) -> None:
        """Wait until the sweeper has looked at every order so often."""
        early = self.keys(sends__lt=number)
        eventually(lambda: not early.exists(), f"{number} looks", within=60, every=0.2)

    def each_is_done_once(self, *, within: float = 60) -> None:
        """Wait for the end: every committed order has its one effect, and nothing else has any."""
        self.wait_until_done(within=within)
        assert self.ordered() == set(self.committed)
        assert self.effects() == dict.fromkeys(self.committed, 1)

    def keys(self, **terms: Any) -> QuerySet[IdempotencyKey]:
        """The ledger's rows."""
        return IdempotencyKey.objects.using(self.site.rows.alias).filter(**terms)

    def live(self) -> QuerySet[IdempotencyKey]:
        """The rows of those that have not ended."""
        return self.keys(state__in=(State.PENDING, State.RUNNING, State.RETRY))

    def unsent(self) -> int:
        """How many orders wait, none of them known to be with the broker."""
        return self.keys(state=State.PENDING, sends=-1).count()

    def effects(self) -> Counter[str]:
        """How often each order had its effect."""
        done = Effect.objects.using(self.site.rows.alias).exclude(note=ORDERED)
        return Counter(done.values_list("key", flat=True))

    def ordered(self) -> set[str]:
        """The orders whose business row is there."""
        rows = Effect.objects.using(self.site.rows.alias).filter(note=ORDERED)
        return set(rows.values_list("key", flat=True))
