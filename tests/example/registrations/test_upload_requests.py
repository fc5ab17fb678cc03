"""What is refused before anything is registered, who may see what, and what an outage comes to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from django_idempotent_tasks.messages.relay import relay
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from example_project.payments.models import Notification
from example_project.registrations.models import Event, Upload
from example_project.registrations.report import Report, report_of
from example_project.registrations.table import Table
from example_project.registrations.tasks import register
from tests.example.registrations.desk import HEADER, Desk, attendees
from tests.support.ledger.quick import EVERY_APP

if TYPE_CHECKING:
    from pytest_django import Settings

pytestmark = [
    pytest.mark.django_db(transaction=True, available_apps=EVERY_APP),
    pytest.mark.urls("example_project.urls"),
    pytest.mark.usefixtures("gateway"),
]

REFUSED = {
    "UTF-16": (HEADER.encode("utf-16"), "is UTF-16: save it as CSV UTF-8"),
    "a quote": (HEADER.encode() + b'"a,b,c,d\n', "Is a quote not closed"),
    "a late NUL": ((HEADER + attendees(120)).encode() + b"\0", "Line 122 has a NUL byte"),
    "nothing": (HEADER.encode(), "no row below the header"),
}


@pytest.mark.parametrize(("body", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_a_file_that_cannot_be_read_is_refused_before_anything_is_registered(
    desk: Desk, body: bytes, words: str
) -> None:
    answer = desk.send(body, name="<b>.csv")
    html = answer.content.decode()
    assert (answer.status_code, words in html, "Nothing was registered" in html) == (400, True, True)
    assert "&lt;b&gt;.csv" in html
    assert not Upload.objects.exists()
    assert not IdempotencyKey.objects.exists()


def test_a_file_above_the_limit_is_refused_and_not_kept(desk: Desk, example_settings: Settings) -> None:
    example_settings.REGISTRATIONS_MAX_BYTES = 100_000
    answer = desk.send(attendees(10_000))
    assert answer.status_code == 413
    assert "larger than 100,000 bytes" in answer.content.decode()
    assert not Upload.objects.exists()


def test_no_file_is_asked_for(desk: Desk) -> None:
    answer = desk.client.post(f"/registrations/{desk.event.pk}/send/", {})
    assert (answer.status_code, "Choose a file first" in answer.content.decode()) == (400, True)


def test_a_form_of_another_site_is_refused(desk: Desk) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(desk.user)
    file = SimpleUploadedFile("a.csv", (HEADER + attendees(1)).encode())
    assert client.post(f"/registrations/{desk.event.pk}/send/", {"file": file}).status_code == 403
    assert not Upload.objects.exists()


def test_an_outage_of_the_broker_loses_nothing_and_keeps_nobody_waiting(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://127.0.0.1:9/0")
    relay.forget()
    upload = desk.sent(attendees(120))
    assert report_of(upload) == Report("running", 120)
    keys = IdempotencyKey.objects.filter(task=register.name, state=State.PENDING)
    assert keys.count() == 3
    html = desk.look(upload).content.decode()
    assert '<noscript><meta http-equiv="refresh"' in html
    relay.forget()


@pytest.mark.usefixtures("printer")
def test_while_the_broker_is_out_for_good_an_upload_is_done_in_its_request(
    desk: Desk, example_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://127.0.0.1:9/0")
    relay.forget()
    example_settings.IDEMPOTENT_TASKS = {"SYNC_FALLBACK": True}
    upload = desk.sent(attendees(4) + "no address,Ann,vip,1\n")
    assert report_of(upload) == Report("finished", 5, ok=4, fatal=1, paid=4, printed=4)
    assert Notification.objects.count() == 1
    relay.forget()


def test_an_upload_that_died_half_way_says_what_to_do(desk: Desk) -> None:
    upload = Upload.objects.create(event=desk.event, digest="d", name="a.csv", rows=9, by="ann")
    html = desk.look(upload).content.decode()
    assert "being received" in html
    assert "send the same file again: it goes on where it was" in html
    assert desk.look(upload, "status/").json()["is_live"]
    assert desk.to_mend(upload) == []


def test_an_upload_that_died_half_way_goes_on_when_it_is_sent_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://127.0.0.1:9/0")
    relay.forget()
    rows = Table.rows

    def dying(table: Table) -> Iterator[dict[str, Any]]:
        for row in rows(table):
            if row["line"] == 1150 and IdempotencyKey.objects.exists():
                raise SystemExit
            yield row

    with monkeypatch.context() as patch:
        patch.setattr(Table, "rows", dying)
        with pytest.raises(SystemExit):
            desk.send(attendees(1200))
    assert report_of(Upload.objects.get()).state == "being received"
    before = set(IdempotencyKey.objects.values_list("digest", flat=True))
    assert len(before) == 20

    upload = desk.sent(attendees(1200))
    assert report_of(upload) == Report("running", 1200)
    after = set(IdempotencyKey.objects.values_list("digest", flat=True))
    assert (len(after), before <= after) == (24, True)
    relay.forget()


def test_the_admin_shows_what_there_is(desk: Desk, upload: Upload) -> None:
    assert desk.event == upload.event
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    for model in ("event", "upload", "registration", "badge"):
        assert client.get(f"/admin/registrations/{model}/").status_code == 200
    html = client.get(f"/admin/registrations/event/{desk.event.pk}/change/").content.decode()
    assert "standard" in html


@pytest.mark.usefixtures("eager", "printer")
def test_nothing_of_an_event_is_for_the_organisers_of_another(desk: Desk) -> None:
    upload = desk.sent(attendees(1))
    other = Desk(Event.objects.create(tenant=desk.event.tenant, title="Djangocon"), "ben")
    stranger = Client()
    for address in (f"/registrations/{desk.event.pk}/", *(
        f"/registrations/uploads/{upload.pk}/{more}" for more in ("", "status/", "to-mend.csv")
    )):  # fmt: skip
        assert other.client.get(address).status_code == 404
        assert stranger.get(address).status_code == 302
    for address in (f"/registrations/{desk.event.pk}/send/", f"/registrations/uploads/{upload.pk}/again/"):
        assert other.client.post(address).status_code == 404
        assert stranger.post(address).status_code == 302
    assert "Pycon" not in other.client.get("/registrations/").content.decode()
    assert "Pycon" in desk.client.get("/registrations/").content.decode()


def test_an_administrator_without_events_makes_one_to_try_and_nobody_else_does(
    example_settings: Settings,
) -> None:
    client = Client()
    client.force_login(User.objects.create_user("ann"))
    assert client.post("/registrations/seed/").status_code == 403
    client.force_login(User.objects.create_superuser("root"))
    assert "Make an event to try" in client.get("/registrations/").content.decode()
    html = client.post("/registrations/seed/", follow=True).content.decode()
    assert "A conference to try" in html
    assert client.post("/registrations/seed/").status_code == 403
    assert example_settings.GATEWAY_TIMEOUT
