"""Reserved tasks of the worker processes."""

from __future__ import annotations

from typing import Any

from tests.proj.tasks import begin, complete_with_effect, guarded


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
