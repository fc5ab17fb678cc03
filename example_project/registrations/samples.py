"""An event to try."""

from __future__ import annotations

from example_project.payments.models import Tenant

from .models import Event, Ticket

#: Code, price, places, and whether it is paid by debit.
TICKETS = (
    ("standard", "49.00", 5000, False),
    ("team", "39.00", 2000, True),
    ("vip", "199.00", 10, False),
)


def make_sample() -> Event:
    """Make one, of the first tenant or of one made for it."""
    tenant = Tenant.objects.first() or Tenant.objects.create(slug="conference", name="The Conference")
    event = Event.objects.create(tenant=tenant, title="A conference to try")
    for code, price, places, by_debit in TICKETS:
        Ticket.objects.create(event=event, code=code, price=price, places=places, by_debit=by_debit)
    return event
