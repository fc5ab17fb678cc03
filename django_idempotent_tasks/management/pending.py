"""What a reserved call waits for: its ETA is in its stored message only."""

from __future__ import annotations

from datetime import UTC, datetime

from ..message import Message
from ..models import IdempotencyKey
from ..moments import exact


def eta_of(row: IdempotencyKey) -> datetime | None:
    """The moment before which a reserved call must not run; None when it has none that can be read."""
    try:
        eta = Message.decode(row.task, row.message or "").options.get("eta")
        moment = datetime.fromisoformat(eta) if isinstance(eta, str) else eta
    except ValueError:
        return None
    if not isinstance(moment, datetime):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def waits_for_its_eta(row: IdempotencyKey, moment: datetime) -> bool:
    """Whether the call was not to run before ``moment``."""
    eta = eta_of(row)
    return eta is not None and eta > exact(moment)
