"""Reads what happened: from the ledger, the project's tables, the gateway and the broker."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any

from django.db.models import Count, Sum
from redis import Redis

from django_idempotent_tasks.models import DuplicateAttempt, FollowUp, IdempotencyKey
from django_idempotent_tasks.states import FINISHED, Reason, State
from example_project import celery_config
from example_project.payments.models import Charge, Notification, Payment, Status, Total
from example_project.payments.tasks import handle_event

from .verdict import Observed

# The transport's own names for what was delivered and not acknowledged.
UNACKNOWLEDGED = ("unacked", "unacked_index")


class Observer:
    """Looks from outside; it changes nothing but the bank that is down."""

    def __init__(self, broker_url: str, gateway_address: str) -> None:
        self._broker = Redis.from_url(broker_url)
        self._gateway_address = gateway_address

    def waiting_messages(self) -> int:
        """Return how many messages wait in the queues or are unacknowledged."""
        queued = sum(self._broker.llen(queue.name) for queue in celery_config.task_queues)
        return queued + self._broker.hlen(UNACKNOWLEDGED[0]) + self._broker.zcard(UNACKNOWLEDGED[1])

    def unfinished_keys(self) -> int:
        """Return how many keys of any task are not in a final state."""
        return IdempotencyKey.objects.exclude(state__in=FINISHED).count()

    def quiet(self) -> bool:
        """Whether nothing is left to do."""
        return not (self.unfinished_keys() or FollowUp.objects.exists() or self.waiting_messages())

    def refused(self, event_id: str) -> bool:
        """Whether the event came again and was refused."""
        keys = IdempotencyKey.objects.filter(task=handle_event.name, key_text=event_id)
        return DuplicateAttempt.objects.filter(digest__in=keys.values("digest")).exists()

    def observed(self) -> Observed:
        """Return the effects, row by row, for the verdict."""
        keys = IdempotencyKey.objects.filter(task=handle_event.name)
        states = keys.values_list("key_text", "state", "reason")
        statuses = Payment.objects.values_list("tenant", "payment_id", "status")
        return Observed(
            key_states={event_id: _state(state, reason) for event_id, state, reason in states},
            deaths=dict(keys.values_list("key_text", "crashes")),
            calls={
                _payment(reference): calls for reference, calls in self.gateway("/calls")["calls"].items()
            },
            booked=list(Charge.objects.values_list("tenant", "payment_id")),
            moved=[_payment(charge["reference"]) for charge in self.gateway("/charges")["charges"]],
            notified=list(Notification.objects.values_list("tenant", "payment_id")),
            statuses={(tenant, payment_id): Status(status).label for tenant, payment_id, status in statuses},
        )

    def gateway(self, path: str) -> dict[str, Any]:
        """Ask the gateway."""
        return ask(self._gateway_address, path)

    def end_outage(self) -> None:
        """Let the bank that was down be up again."""
        connection = HTTPConnection(self._gateway_address, timeout=10)
        try:
            connection.request("POST", "/recover")
            connection.getresponse().read()
        finally:
            connection.close()

    def close(self) -> None:
        """Close the connection to the broker."""
        self._broker.close()


def ask(address: str, path: str) -> dict[str, Any]:
    """Ask the gateway or the printer at this address."""
    connection = HTTPConnection(address, timeout=10)
    try:
        connection.request("GET", path)
        return dict(json.loads(connection.getresponse().read()))
    finally:
        connection.close()


def _state(state: int, reason: int) -> str:
    name = State(state).name
    return f"{name} ({Reason(reason).name.lower()})" if state == State.FAILED else name


def _payment(reference: str) -> tuple[str, str]:
    tenant, payment_id = reference.split("/")
    return tenant, payment_id


def duplicates_refused() -> int:
    """Return how many events the ledger refused because their key was taken."""
    events = IdempotencyKey.objects.filter(task=handle_event.name)
    return DuplicateAttempt.objects.filter(digest__in=events.values("digest")).count()


def takeovers() -> int:
    """Return how many keys lost an owner and were finished by another."""
    return IdempotencyKey.objects.filter(crashes__gt=0).count()


def wrong_totals() -> int:
    """Count the totals that are not what the tenant's charges come to."""
    charges = Charge.objects.values_list("tenant", "currency")
    due = set(charges.annotate(Count("id"), Sum("amount")))
    return len(due ^ set(Total.objects.values_list("tenant", "currency", "charges", "amount")))
