"""The organiser's page: each row of a file once, and what failed comes back to be mended."""

from __future__ import annotations

import csv
import io

import pytest

from example_project.gateway.server import Behaviour, GatewayServer
from example_project.payments.models import Notification
from example_project.printer.server import PrinterServer
from example_project.registrations.models import Badge, Registration
from example_project.registrations.report import Report, report_of
from tests.example.registrations.desk import Desk, attendees, run_what_is_due
from tests.support.ledger.quick import EVERY_APP

pytestmark = [
    pytest.mark.django_db(transaction=True, available_apps=EVERY_APP),
    pytest.mark.urls("example_project.urls"),
    pytest.mark.usefixtures("gateway"),
]


@pytest.mark.usefixtures("eager")
def test_every_row_of_a_file_becomes_a_registration_a_charge_and_a_badge(
    desk: Desk, printer: PrinterServer, gateway: GatewayServer
) -> None:
    upload = desk.sent(attendees(7))
    assert report_of(upload) == Report("finished", 7, ok=7, paid=7, printed=7)
    assert Registration.objects.count() == Badge.objects.count() == len(printer.store.sheets()) == 7
    assert len(gateway.store.charges()) == 7
    assert Notification.objects.get().text == "attendees.csv: 7 of 7 rows are registered"


@pytest.mark.usefixtures("eager", "printer")
def test_the_same_file_sent_twice_is_one_upload_and_one_message(desk: Desk, gateway: GatewayServer) -> None:
    first, second = desk.sent(attendees(7)), desk.sent(attendees(7), name="copy.csv")
    assert first == second
    assert "sent before, and was not taken twice" in desk.look(second).content.decode()
    assert (Registration.objects.count(), len(gateway.store.charges())) == (7, 7)
    assert Notification.objects.count() == 1


BAD = (
    "no address,Ann,standard,1\n"  # 2
    "b1@x.org,Ben,gold,11\n"  # 3
    "b2@x.org,Ben,standard\n"  # 4
    + attendees(3)
    + "a1@x.org,Ann again,standard,1\n"  # 8
    + "v1@x.org,Vi,vip,2\n"
    + "v2@x.org,Vi,vip,1\n"  # 10
)
NO_TICKET = "ticket: is none of standard, team, vip"


@pytest.mark.usefixtures("eager", "printer")
def test_each_row_that_fails_has_its_category_and_its_reason(desk: Desk, gateway: GatewayServer) -> None:
    upload = desk.sent(BAD)
    assert report_of(upload) == Report("finished", 9, ok=4, fatal=3, manual_review=2, paid=4, printed=4)
    found = [(row["line"], row["category"], row["error"]) for row in desk.to_mend(upload)]
    assert found == [
        ("2", "fatal", "email: is not an e-mail address"),
        ("3", "fatal", f"{NO_TICKET}; quantity: Input should be less than or equal to 10"),
        ("4", "fatal", "quantity: Field required"),
        ("8", "manual_review", "a1@x.org is registered already, as Ann 1, line 6"),
        ("10", "manual_review", "vip has not 1 places left"),
    ]  # fmt: skip
    assert len(gateway.store.charges()) == 4
    html = desk.look(upload).content.decode()
    assert "All 5 as a CSV to mend and send again" in html
    assert "vip has not 1 places left" in html


@pytest.mark.usefixtures("eager", "printer")
def test_what_failed_is_mended_and_sent_again_as_it_came(desk: Desk) -> None:
    upload = desk.sent(BAD)
    rows = desk.to_mend(upload)[:3]
    for row, change in zip(
        rows, ({"email": "n@x.org"}, {"ticket": "team", "quantity": "1"}, {"quantity": "2"}), strict=True
    ):
        row.update(change)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    mended = desk.sent(out.getvalue(), header="")
    assert report_of(mended).ok == 3
    assert Registration.objects.get(email="b2@x.org").quantity == 2


@pytest.mark.usefixtures("eager")
def test_a_formula_is_shown_and_comes_back_whole(desk: Desk) -> None:
    evil = "=cmd|' /C calc'!A0"
    upload = desk.sent(f"a@x.org,{evil},gold,1\n@x,+1,-1,\t1\n")
    first, second = desk.to_mend(upload)
    assert first["name"] == f"'{evil}"
    assert [second[name] for name in ("email", "name", "ticket")] == ["'@x", "'+1", "'-1"]
    again = desk.sent(f"a@x.org,{first['name']},vip,1\n")
    assert report_of(again).ok == 1
    assert Registration.objects.get().name == evil


@pytest.mark.usefixtures("eager", "printer")
def test_a_provider_that_is_away_leaves_rows_to_try_again(desk: Desk, gateway: GatewayServer) -> None:
    gateway.behaviour = Behaviour(latency=(0, 0), unavailable=1)
    upload = desk.sent(attendees(3) + "no address,Ann,vip,1\n")
    assert report_of(upload) == Report("needs_attention", 4, fatal=1, retryable=3)
    assert not Notification.objects.exists()
    assert {row["category"] for row in desk.to_mend(upload)} == {"fatal", "retryable"}


@pytest.mark.usefixtures("eager", "printer")
def test_what_the_provider_did_not_answer_goes_on_when_it_is_asked_again(
    desk: Desk, gateway: GatewayServer
) -> None:
    gateway.behaviour = Behaviour(latency=(0, 0), unavailable=1)
    upload = desk.sent(attendees(3) + "no address,Ann,vip,1\n")
    assert "Try again what the provider did not answer" in desk.look(upload).content.decode()
    gateway.behaviour = Behaviour(latency=(0, 0))
    desk.again(upload, "retryable")
    run_what_is_due(upload)
    assert report_of(upload) == Report("finished", 4, ok=3, fatal=1, paid=3, printed=3)
    assert len(gateway.store.charges()) == 3
    assert Notification.objects.count() == 1


@pytest.mark.usefixtures("eager", "printer")
def test_what_had_to_be_looked_at_is_tried_again_once_there_are_places(desk: Desk) -> None:
    upload = desk.sent("v1@x.org,Vi,vip,2\nv2@x.org,Vi,vip,1\n")
    assert report_of(upload).manual_review == 1
    desk.event.tickets.filter(code="vip").update(places=1)
    desk.again(upload, "manual_review")
    run_what_is_due(upload)
    assert report_of(upload) == Report("finished", 2, ok=2, paid=2, printed=2)
    assert Notification.objects.count() == 1


@pytest.mark.usefixtures("eager", "printer")
def test_only_what_can_end_otherwise_is_tried_again(desk: Desk) -> None:
    upload = desk.sent("no address,Vi,vip,2\n")
    assert desk.again(upload, "fatal").status_code == 403
    assert desk.again(upload, "").status_code == 403


@pytest.mark.usefixtures("eager", "printer")
def test_the_page_s_script_is_told_the_counts(desk: Desk) -> None:
    upload = desk.sent(BAD)
    answer = desk.look(upload, "status/")
    assert answer["Retry-After"] == "1"
    assert answer.json() == {
        "state": "finished", "words": "finished", "total": 9, "done": 9, "ok": 4, "fatal": 3,
        "manual_review": 2, "retryable": 0, "waiting": 0, "paid": 4, "printed": 4, "is_live": False,
    }  # fmt: skip
