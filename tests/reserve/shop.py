"""Orders that are reserved together with a business row, and what became of them."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from django.db import transaction

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from example_project.servers import Server
from tests.proj.models import Effect
from tests.proj.reserving import ordering
from tests.support.processes import Worker
from tests.support.site import Site
from tests.support.waiting import eventually

#: Seconds after which the sweeper sends again what was not claimed.
REPUBLISH_AFTER = 3
ORDERED = "ordered"


class RollbackError(Exception):
    """What ends a request that fails after it has sent something."""


@dataclass
class Shop:
    """What a test does to it, and looks at."""

    site: Site
    server: Server
    environment: Mapping[str, str]
    committed: list[str] = field(default_factory=list)

    def worker(self, name: str, *arguments: str) -> Worker:
        """A started worker of the shop; its results go nowhere."""
        return self.site.worker(
            name, *arguments, PROJ_RESULT_BACKEND="disabled://", **self.environment
        ).start()

    def order(self, key: str, *, gated: bool = False) -> str:
        """Write an order and reserve its task, in one transaction; the accepted call."""
        with self.transaction():
            Effect.objects.using(self.site.rows.alias).create(key=key, attempt=0, token=0, note=ORDERED)
            call = ordering.delay(key, gated=gated)
        self.committed.append(key)
        return str(call.id)

    def fail_to_order(self, key: str) -> None:
        """The same, and then the request fails."""
        with suppress(RollbackError), self.transaction():
            ordering.delay(key)
            raise RollbackError

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction on the shop's database."""
        with transaction.atomic(using=self.site.rows.alias):
            yield

    def kill_a_child(self) -> None:
        """SIGKILL a child in the middle of an order, if any is at one now."""
        running = IdempotencyKey.objects.using(self.site.rows.alias).filter(state=State.RUNNING)
        owner = running.values_list("owner", flat=True).first()
        with suppress(ProcessLookupError):
            if owner:
                os.kill(int(owner.split(":")[1]), signal.SIGKILL)

    def wait_until_done(self, *, within: float) -> None:
        """Wait until every key has ended."""
        keys = IdempotencyKey.objects.using(self.site.rows.alias)
        live = keys.filter(state__in=(State.PENDING, State.RUNNING, State.RETRY))
        try:
            eventually(lambda: not live.exists(), "every order is done", within=within, every=0.2)
        except AssertionError as error:
            left = list(live.values_list("key_text", "state", "attempts", "sends", "due_at")[:10])
            raise AssertionError(f"{error}; {self.site.broker.waiting()} messages, {left}") from None

    def wait_for_looks(self, number: int) -> None:
        """Wait until the sweeper has looked at every order so often."""
        keys = IdempotencyKey.objects.using(self.site.rows.alias)
        eventually(
            lambda: not keys.filter(sends__lt=number).exists(), f"{number} looks", within=60, every=0.2
        )

    def effects(self) -> Counter[str]:
        """How often each order had its effect."""
        done = Effect.objects.using(self.site.rows.alias).exclude(note=ORDERED)
        return Counter(done.values_list("key", flat=True))

    def ordered(self) -> set[str]:
        """The orders whose business row is there."""
        rows = Effect.objects.using(self.site.rows.alias).filter(note=ORDERED)
        return set(rows.values_list("key", flat=True))
