"""Chooses whom a fault strikes, and says who holds which key."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar
from uuid import UUID

from django.db import Error as DatabaseError
from django.db import connection
from django.db.models import Q

from benchmarks.chaos.plan import Fault
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import Reason, State

Item = TypeVar("Item")


def pick(fault: Fault, victims: Sequence[Item]) -> Item | None:
    """The victim that the fault's number chooses."""
    return victims[int(fault.pick * len(victims))] if victims else None


def at_work() -> set[int]:
    """The processes that hold a key under a lease now."""
    return {pid for _digest, _token, pid in _holders()}


def held_by(pids: Collection[int]) -> dict[UUID, int]:
    """The keys that these processes hold under a lease, with the token of each claim."""
    return {digest: token for digest, token, pid in _holders() if pid in pids}


def not_taken(held: Mapping[UUID, int]) -> int:
    """Of these claims, those that nobody else has the key of, or has ended; all while nobody can tell."""
    still = Q(pk__in=[])
    for digest, token in held.items():
        still |= Q(digest=digest, token=token, state=State.RUNNING)
    freed = Q(digest__in=held, state=State.RETRY, reason=Reason.OWNER_DIED)
    with suppress(DatabaseError):
        return IdempotencyKey.objects.filter(still | freed).count()
    connection.close()
    return len(held)


def _holders() -> Iterator[tuple[UUID, int, int]]:
    """Digest, token and process of each claim; none while the database is away."""
    try:
        running = IdempotencyKey.objects.filter(state=State.RUNNING)
        found = list(running.values_list("digest", "token", "owner"))
    except DatabaseError:
        connection.close()
        return
    # The owner of a key is <worker instance>:<process>:<claim>.
    yield from ((digest, token, int(owner.split(":")[1])) for digest, token, owner in found if owner)
