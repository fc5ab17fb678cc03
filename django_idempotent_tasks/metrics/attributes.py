"""Describes an attempt, or a refused call, for traces: which key, which attempt, what was decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from .. import signals
from ..ledger.values import Call, Claim
from ..states import Reason

Described: TypeAlias = dict[str, str | int]
PREFIX = "idempotent_tasks"
RUN, TAKEOVER, DUPLICATE = "run", "takeover", "duplicate"


def of_claim(claim: Claim) -> Described:
    """The key by its digest, since a trace leaves the project: its text may quote arguments."""
    took_over = claim.grant.reason is Reason.OWNER_DIED
    return {
        f"{PREFIX}.key": claim.digest.hex,
        f"{PREFIX}.attempt": claim.grant.attempts,
        f"{PREFIX}.token": claim.token,
        f"{PREFIX}.decision": TAKEOVER if took_over else RUN,
    }


def of_duplicate(call: Call, reason: str) -> Described:
    """A call that was refused, and why."""
    decision = {f"{PREFIX}.decision": DUPLICATE, f"{PREFIX}.reason": reason}
    return {f"{PREFIX}.key": call.identity.digest.hex, **decision}


def describe(tell: Callable[[Described], None], *, uid: str) -> None:
    """Have ``tell`` called as each attempt begins and as each duplicate is refused."""

    def started(claim: Claim, **_kwargs: object) -> None:
        tell(of_claim(claim))

    def refused(call: Call, reason: str, **_kwargs: object) -> None:
        tell(of_duplicate(call, reason))

    signals.attempt_started.connect(started, weak=False, dispatch_uid=uid)
    signals.duplicate_detected.connect(refused, weak=False, dispatch_uid=uid)
