"""Dead letters to look at and to decide on, on each database that the tests have."""

from __future__ import annotations

from datetime import timedelta
from os import urandom
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.values import Call, Claim
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.testing.contract.bench import MESSAGE, a_failure
from tests.support.keys import Keys

#: ``mysql`` is there where MYSQL_URL names a server.
LEDGERS = [alias for alias in ("default", "sqlite", "mysql") if alias in settings.DATABASES]

everywhere = pytest.mark.parametrize("keys", [Keys(alias) for alias in LEDGERS], ids=LEDGERS)

WHY = ("--reason", "the gateway is up again", "--yes")


def dead(
    keys: Keys,
    *,
    task: str = "shop.charge",
    scope: str | None = None,
    text: str = "7",
    message: str | None = MESSAGE,
    state: State = State.FAILED,
    ago: int = 0,
    **failure: Any,
) -> Claim:
    """A dead letter whose work ended so many seconds ago."""
    identity = Identity(UUID(bytes=urandom(16)), scope, text, None)
    claim = keys.claimed(Call(identity, task, "A", message))
    reason = Reason.IN_DOUBT if state is State.REVIEW else Reason.RETRIES_USED_UP
    assert keys.fail(claim, state=state, reason=reason, failure=a_failure(**failure))
    if ago:
        ended = keys.row(claim).finished_at
        assert ended is not None
        keys.in_columns(claim, finished_at=ended - timedelta(seconds=ago))
    return claim


def many(keys: Keys, number: int, *, message: str | None = MESSAGE, task: str = "shop.charge") -> None:
    """So many dead letters of one kind, written at once."""
    row = keys.row(dead(keys, task=task, message=message))
    values = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields}
    del values["digest"]
    rows = [IdempotencyKey(digest=UUID(bytes=urandom(16)), **values) for _ in range(number - 1)]
    IdempotencyKey.objects.using(keys.alias).bulk_create(rows, batch_size=100)


def states(keys: Keys, *claims: Claim) -> list[str]:
    """Where keys are now."""
    return [State(keys.row(claim).state).name for claim in claims]
