"""The rows that tests look at, through Django, on the tests' own database or another one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connections
from django.utils import timezone

from django_idempotent_tasks.models import (
    AnsweredCall,
    Batch,
    BatchChunk,
    BatchRecord,
    DuplicateAttempt,
    FailedJob,
    FollowUp,
    IdempotencyKey,
    Leader,
    RedriveOperation,
    Step,
)
from django_idempotent_tasks.states import State
from tests.sample.models import Effect
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker


@dataclass(frozen=True)
class Rows:
    """The ledger and the effects in the database ``alias``."""

    alias: str = "default"

    def find(self, key: str) -> IdempotencyKey | None:
        """Return the row of a key, or None."""
        return IdempotencyKey.objects.using(self.alias).filter(key_text=f"key={key}").first()

    def row(self, key: str) -> IdempotencyKey:
        """Return the row of a key."""
        return IdempotencyKey.objects.using(self.alias).get(key_text=f"key={key}")

    def wait_for(
        self,
        key: str,
        state: State,
        *,
        within: float = 30.0,
        also: Callable[[IdempotencyKey], bool] | None = None,
    ) -> IdempotencyKey:
        """Wait until a key is in a state (and a condition holds); its row."""

        def look() -> IdempotencyKey | None:
            row = self.find(key)
            holds = row is not None and row.state == state and (also is None or also(row))
            return row if holds else None

        try:
            return eventually(look, f"{key} is {state.name}", within=within)
        except AssertionError as error:
            row = self.find(key)
            facts = row and {name: getattr(row, name) for name in ("state", "reason", "attempts", "crashes")}
            raise AssertionError(f"{error}; the row: {facts}") from None

    def lease_end(self, key: str) -> datetime:
        """Return until when a key's owner keeps it, as last renewed (or when its retry is due)."""
        moment = self.row(key).open_at
        assert moment is not None, f"{key} has no such time"
        return moment

    def kept_for(self, key: str) -> float:
        """Return the seconds from the start of an attempt to the end of its lease, as last renewed."""
        row = self.row(key)
        assert row.open_at is not None
        assert row.started_at is not None
        return (row.open_at - row.started_at).total_seconds()

    def stored(self, key: str) -> Any:
        """Return the stored result or error of a key."""
        return json.loads(self.row(key).result or "null")

    def effects(self, key: str) -> list[Effect]:
        """List what bodies of a key wrote, in order."""
        return list(Effect.objects.using(self.alias).filter(key=key).order_by("id"))

    def refusals(self, key: str) -> list[str]:
        """List the reasons for which calls of a key were refused as duplicates."""
        digest = self.row(key).digest
        attempts = DuplicateAttempt.objects.using(self.alias).filter(digest=digest).order_by("id")
        return list(attempts.values_list("reason", flat=True))

    def failed(self, key: str) -> list[FailedJob]:
        """List the failed attempts of a key, in order."""
        return list(FailedJob.objects.using(self.alias).filter(key_text=f"key={key}").order_by("id"))

    def leader(self) -> Leader | None:
        """Return who leads the sweeper, or None."""
        return Leader.objects.using(self.alias).filter(name="sweeper").first()

    def is_led_by(self, worker: Worker) -> bool:
        """Whether this worker's sweeper has the lead now; there is one row, so no other has it then."""
        leader = self.leader()
        if leader is None or leader.expires_at <= timezone.now():
            return False
        return leader.holder.split(":")[1] == str(worker.process.pid)

    def leader_holder(self) -> str:
        """Return who leads the sweeper."""
        leader = self.leader()
        return leader.holder if leader else ""

    def count(self) -> int:
        """Count the keys."""
        return IdempotencyKey.objects.using(self.alias).count()

    def clear(self) -> None:
        """Delete everything but the leader."""
        for model in (
            IdempotencyKey,
            AnsweredCall,
            DuplicateAttempt,
            FailedJob,
            FollowUp,
            RedriveOperation,
            Step,
            Batch,
            BatchChunk,
            BatchRecord,
            Effect,
        ):
            model._default_manager.using(self.alias).all().delete()

    def close(self) -> None:
        """Give the connection up; the next look opens one."""
        connections[self.alias].close()
