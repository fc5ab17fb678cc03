"""An attendee is refused before the charge, or gets a place and is charged once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, transaction

from example_project.gateway.server import Behaviour, GatewayServer
from example_project.gateway.store import DECLINED_AMOUNT
from example_project.payments.gateway_client import CardDeclined, GatewayUnavailable
from example_project.payments.models import Charge, Payment, Status
from example_project.registrations.enrolment import Answer, DuplicateAttendee, SoldOut, ask
from example_project.registrations.models import Event, Registration, Ticket, Upload
from example_project.registrations.rows import BadRow
from tests.support.ledger.quick import EVERY_APP

pytestmark = pytest.mark.usefixtures("gateway")
committing = pytest.mark.django_db(transaction=True, available_apps=EVERY_APP)


def row(number: int = 1, **changed: Any) -> dict[str, Any]:
    facts = {"email": f"a{number}@x.org", "name": f"Ann {number}", "ticket": "standard", "quantity": "1"}
    return {"line": number + 1, **facts, **changed}


def asked(upload: Upload, value: dict[str, Any]) -> Answer:
    return ask(upload, {ticket.code: ticket for ticket in upload.event.tickets.all()}, value)


def enrolled(upload: Upload, value: dict[str, Any], *, attempt: int = 1) -> bool:
    answer = asked(upload, value)
    with transaction.atomic():
        return answer.keep(attempt=attempt)


def free(event: Event, code: str) -> int:
    return Ticket.objects.get(event=event, code=code).places


def test_an_attendee_is_written_down_placed_and_charged(upload: Upload, gateway: GatewayServer) -> None:
    assert enrolled(upload, row(quantity="3"))
    [registration] = Registration.objects.all()
    [charge] = Charge.objects.all()
    [made] = gateway.store.charges()
    assert registration.amount == "147.00"
    assert registration.paid_at is not None
    assert registration.accepted_at is not None
    assert free(upload.event, "standard") == 17
    assert made["reference"] == f"acme/{registration.reference}" == f"acme/reg-{upload.pk.hex}-2"
    assert (charge.payment_id, str(charge.amount)) == (registration.reference, "147.00")
    assert charge.gateway_reference == made["id"]


def test_a_debit_is_paid_later(upload: Upload) -> None:
    assert not enrolled(upload, row(ticket="team"))
    assert Registration.objects.get().paid_at is None
    assert Payment.objects.get().status == Status.PENDING


def assert_untouched(upload: Upload, gateway: GatewayServer, *, registrations: int = 0) -> None:
    counts = (Registration.objects.count(), Charge.objects.count(), len(gateway.store.charges()))
    assert counts == (registrations,) * 3
    assert free(upload.event, "vip") == 2


def test_who_comes_when_it_is_sold_out_is_not_even_asked_to_pay(
    upload: Upload, gateway: GatewayServer
) -> None:
    with pytest.raises(SoldOut, match="vip has not 3 places left"):
        enrolled(upload, row(ticket="vip", quantity="3"))
    assert_untouched(upload, gateway)
    assert gateway.store.calls() == {}


def test_who_is_registered_already_is_not_asked_to_pay_once_more(
    upload: Upload, gateway: GatewayServer
) -> None:
    enrolled(upload, row(1))
    with pytest.raises(DuplicateAttendee, match=r"a1@x\.org is registered already, as Ann 1, line 2"):
        enrolled(upload, row(2, email="a1@x.org", ticket="vip"))
    assert_untouched(upload, gateway, registrations=1)


def test_a_row_that_is_wrong_is_not_asked_to_pay(upload: Upload, gateway: GatewayServer) -> None:
    with pytest.raises(BadRow):
        enrolled(upload, row(ticket="gold"))
    assert_untouched(upload, gateway)


def test_a_provider_that_is_away_leaves_the_place_held_for_the_next_try(
    upload: Upload, gateway: GatewayServer
) -> None:
    gateway.behaviour = Behaviour(latency=(0, 0), unavailable=1)
    for _ in range(2):
        with pytest.raises(GatewayUnavailable):
            enrolled(upload, row(ticket="vip"))
    [held] = Registration.objects.all()
    assert (held.accepted_at, free(upload.event, "vip"), Charge.objects.count()) == (None, 1, 0)
    gateway.behaviour = Behaviour(latency=(0, 0))
    assert enrolled(upload, row(ticket="vip"), attempt=3)
    assert Registration.objects.get().pk == held.pk
    assert free(upload.event, "vip") == 1


def test_a_declined_card_gives_its_place_back(upload: Upload, gateway: GatewayServer) -> None:
    Ticket.objects.filter(code="vip").update(price=DECLINED_AMOUNT)
    for _ in range(2):
        with pytest.raises(CardDeclined):
            enrolled(upload, row(ticket="vip"))
    assert_untouched(upload, gateway)


def test_who_was_charged_and_not_booked_is_neither_charged_again_nor_overtaken(
    upload: Upload, gateway: GatewayServer
) -> None:
    """As when its process dies between the charge and the commit, while others go on."""
    assert asked(upload, row(1, ticket="vip", quantity="2")).charged
    with pytest.raises(DuplicateAttendee):
        enrolled(upload, row(2, email="a1@x.org"))
    with pytest.raises(SoldOut):
        enrolled(upload, row(3, ticket="vip"))
    assert enrolled(upload, row(1, ticket="vip", quantity="2"), attempt=2)
    assert gateway.store.stats() == {"charges": 1, "raw_calls": 2, "keys_called_twice": 1}
    assert Charge.objects.get().attempt == 2


def at_once(calls: Sequence[Callable[[], object]]) -> list[str]:
    """What each of them raised, or returned."""

    def outcome(call: Callable[[], object]) -> str:
        try:
            return str(call())
        except Exception as error:  # noqa: BLE001  each end is an outcome
            return type(error).__name__
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        return sorted(pool.map(outcome, calls))


@pytest.mark.postgresql
@committing
def test_the_last_places_are_given_to_as_many_as_there_are(upload: Upload, gateway: GatewayServer) -> None:
    calls = [lambda number=number: enrolled(upload, row(number, ticket="vip")) for number in range(16)]
    assert at_once(calls) == [*["SoldOut"] * 14, "True", "True"]
    assert Registration.objects.count() == len(gateway.store.charges()) == 2
    assert free(upload.event, "vip") == 0


@pytest.mark.postgresql
@committing
def test_one_attendee_in_several_lines_at_once_is_registered_once(
    upload: Upload, gateway: GatewayServer
) -> None:
    calls = [lambda number=number: enrolled(upload, row(number, email="ann@x.org")) for number in range(8)]
    assert at_once(calls) == [*["DuplicateAttendee"] * 7, "True"]
    assert Registration.objects.count() == len(gateway.store.charges()) == 1
    assert free(upload.event, "standard") == 19


@pytest.mark.postgresql
@committing
def test_one_line_in_two_attempts_at_once_is_held_and_charged_once(
    upload: Upload, gateway: GatewayServer
) -> None:
    at_once([lambda: asked(upload, row(ticket="vip"))] * 8)
    assert Registration.objects.count() == len(gateway.store.charges()) == 1
    assert free(upload.event, "vip") == 1
