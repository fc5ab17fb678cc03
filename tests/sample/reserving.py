"""Reserved tasks of the worker processes."""

from __future__ import annotations

from typing import Any

from django.db import InterfaceError, OperationalError

from tests.sample.tasks import begin, complete_with_effect, effect, guarded


@guarded(name="proj.ordering", reserve=True, max_crashes=20)
def ordering(self: Any, key: str, *, gated: bool = False) -> dict[str, Any]:
    """Write one effect, in the transaction that completes the key."""
    begin(self, key, gated=gated)
    return complete_with_effect(self, key)


@guarded(name="proj.enduring", max_crashes=1000)
def enduring(self: Any, key: str) -> dict[str, Any]:
    """The same, of a call that is not reserved."""
    begin(self, key)
    return complete_with_effect(self, key)


#: A leased body's own statements may meet a dead connection: that is an error of the body, which tries again.
_LASTING: dict[str, Any] = {
    "lease": 60,
    "max_crashes": 20,
    "max_retries": 20,
    "default_retry_delay": 0,
    "transient_errors": (InterfaceError, OperationalError),
}

lasting = guarded(name="proj.lasting", **_LASTING)(effect)
lasting_reserved = guarded(name="proj.lasting_reserved", reserve=True, **_LASTING)(effect)
