"""Workers that have written of themselves, and keys that their processes hold, without a process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django_idempotent_tasks.ledger.presence import Presence
from django_idempotent_tasks.ledger.sweeps import NOTED_FOR
from django_idempotent_tasks.ledger.values import Claim
from tests.support.keys import Keys

#: A worker of the shop.
MAIL = Presence(
    instance="1" * 32,
    name="mail@host",
    host="host",
    pid=4700,
    pool="prefork",
    concurrency=8,
    queues=("celery", "mail"),
    tasks=("shop.charge",),
    version="1.0",
    age=90.0,
)


def worker(keys: Keys, **facts: Any) -> Presence:
    """A worker that has just written of itself."""
    presence = replace(MAIL, **facts)
    keys.store().note_worker(presence)
    return presence


def led(keys: Keys) -> None:
    """Let somebody lead the sweeper, and sweep, for longer than any test's clock is moved."""
    assert keys.store().lead("sweeper", holder="host:1:abc", lease=10_000)
    assert keys.store().lead("swept", holder="swept", lease=NOTED_FOR + 10_000)


def held(keys: Keys, presence: Presence | None, *, pid: int = 4711, lease: int = 30) -> Claim:
    """A key that a process of this worker holds; of one that never wrote of itself for None."""
    instance = "9" * 32 if presence is None else presence.instance
    call, owner = keys.call(), f"{instance}:{pid}:0123456789abcdef"
    return keys.granted(call, owner, keys.store().claim_new(call, owner=owner, lease=lease), lease)
