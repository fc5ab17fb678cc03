"""The package broken on purpose, in a worker that is told so: what tests look at must then look different."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest
from celery.exceptions import Ignore

from django_idempotent_tasks.ledger.stores import postgresql_statements, statements
from django_idempotent_tasks.running import attempt, delivery
from django_idempotent_tasks.worker import hooks

#: Patches are never undone: the worker that has them ends with them.
_patch = pytest.MonkeyPatch()


def _drop(*_arguments: Any, **_options: Any) -> NoReturn:
    raise Ignore


def _no_parent_hook() -> None:
    _patch.setattr(hooks, "install", lambda _app: None)


def _no_fencing() -> None:
    unfenced = statements.COMPLETE.replace(statements.OWNED, "digest = %(digest)s")
    assert unfenced != statements.COMPLETE
    _patch.setattr(statements, "COMPLETE", unfenced)


def _busy_copies_dropped() -> None:
    _patch.setattr(delivery, "come_back", _drop)


def _taken_leases_renewed() -> None:
    reviving = postgresql_statements.RENEW.replace(" AND h.token = held.token AND h.owner = held.owner", "")
    assert reviving != postgresql_statements.RENEW
    _patch.setattr(postgresql_statements, "RENEW", reviving)


def _retries_published_first() -> None:
    _patch.setattr(attempt.Attempt, "captures", lambda *_arguments: False)


VARIANTS: dict[str, Callable[[], None]] = {
    "no parent hook": _no_parent_hook,
    "no fencing": _no_fencing,
    "busy copies dropped": _busy_copies_dropped,
    "taken leases renewed": _taken_leases_renewed,
    "retries published first": _retries_published_first,
}


def apply(names: str) -> None:
    """Break what is named, separated by commas."""
    for name in names.split(","):
        VARIANTS[name]()
