"""The kinds of calls whose workers are killed: leased and atomic, each sent plainly and reserved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from django.db import transaction

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.sample import atomic, reserving
from tests.sample.models import Effect
from tests.support.waiting import eventually
from tests.support.workers import processes
from tests.support.workers.site import Site


def leased(site: Site, key: str, *, waits: bool) -> None:
    """Send a call to be run under a lease."""
    site.send(reserving.lasting, key, gated=waits)


def atomically(site: Site, key: str, *, waits: bool) -> None:
    """Send a call to be run in one transaction."""
    site.send(atomic.acting, key, ["written: wait"] if waits else [])


def reserved(site: Site, key: str, *, waits: bool) -> None:
    """Reserve a call to be run under a lease."""
    with transaction.atomic(using=site.rows.alias):
        reserving.lasting_reserved.apply_async((key,), {"gated": waits})


def reserved_atomically(site: Site, key: str, *, waits: bool) -> None:
    """Reserve a call to be run in one transaction."""
    with transaction.atomic(using=site.rows.alias):
        atomic.reserved.apply_async((key, ["written: wait"] if waits else []))


KINDS: tuple[Callable[..., None], ...] = (leased, atomically, reserved, reserved_atomically)


def keys_of(number: int) -> list[str]:
    """So many keys, of each kind in turn."""
    return [f"{KINDS[at % len(KINDS)].__name__}-{at}" for at in range(number)]


def send(site: Site, key: str, *, waits: bool) -> None:
    """Call the task of a key; who ``waits`` stops in the middle of its first attempt."""
    KINDS[int(key.rpartition("-")[2]) % len(KINDS)](site, key, waits=waits)


def reached(site: Site, key: str) -> None:
    """Wait until the first attempt of a key stands in its middle; those that follow it will not stop."""
    eventually((site.directory / f"{key}.1.visited").exists, f"{key} is in its body")
    site.journal.open(*(f"{key}.{attempt}" for attempt in range(2, 9)))


def kill_at_its_gate(site: Site, key: str) -> None:
    """End the child that runs this key, once it stands in the middle of its body."""
    reached(site, key)
    processes.kill(site.journal.started(key)["pid"])


def wait_until_done(site: Site, keys: list[str], *, within: float = 60) -> None:
    """Wait until all of them have succeeded."""
    rows = IdempotencyKey.objects.using(site.rows.alias)

    def left() -> list[tuple[str, str, str, int]]:
        states = dict(rows.values_list("key_text", "state"))
        missing = [key for key in keys if states.get(f"key={key}") != State.SUCCEEDED]
        return [(key, *_told(rows.filter(key_text=f"key={key}").first())) for key in missing]

    try:
        eventually(lambda: not left(), "all is done", within=within, every=0.2)
    except AssertionError as error:
        raise AssertionError(f"{error}; left: {left()}") from None


def _told(row: IdempotencyKey | None) -> tuple[str, str, int]:
    return ("no row", "", 0) if row is None else (State(row.state).name, row.result or "", row.crashes)


def effects(site: Site) -> dict[str, int]:
    """How many effects each key has."""
    return Counter(Effect.objects.using(site.rows.alias).values_list("key", flat=True))
