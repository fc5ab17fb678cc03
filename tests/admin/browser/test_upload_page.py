"""The example's page of an upload before a real browser: sent, followed to its end, tried again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from django_idempotent_tasks.ledger import batches
from django_idempotent_tasks.ledger.stores import get_store
from django_idempotent_tasks.messages.relay import relay
from django_idempotent_tasks.models import BatchChunk, IdempotencyKey
from django_idempotent_tasks.states import State
from example_project.payments import gateway_client
from example_project.payments.gateway_client import Charged, GatewayUnavailable
from example_project.payments.models import Tenant
from example_project.registrations import printer_client
from example_project.registrations.models import Event, Registration, Ticket, Upload
from example_project.registrations.tasks import print_badge, register, upload_finished
from tests.admin.browser.site import Browser
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.thorough]
HEADER = "email,name,ticket,quantity\n"
BAD = "no address,<b>Ben</b>,standard,1\na1@x.org,Ann again,standard,1\nv@x.org,Vi,vip,9\n"


class Provider:
    """Charges when it is told to, so many at a time; away, it answers none."""

    def __init__(self) -> None:
        self.may = threading.Semaphore(0)
        self.is_away = False

    def __call__(self, order: Any, _key: str) -> Charged:
        assert self.may.acquire(timeout=30)
        if self.is_away:
            raise GatewayUnavailable("503: the bank is down")
        return Charged(f"ch-{order['reference']}", "completed")


class Site:
    """An organiser at the event's page, and a worker in this process."""

    def __init__(self, browser: Browser, provider: Provider, files: Path) -> None:
        self.browser, self.provider, self._files = browser, provider, files
        self.threads: list[Thread] = []
        organiser = User.objects.create_user("ann", password="secret")
        tenant = Tenant.objects.create(slug="acme", name="Acme Events")
        self.event = Event.objects.create(tenant=tenant, title="A conference <b>to try</b>")
        self.event.organisers.add(organiser)
        for code, price, places in (("standard", "49.00", 500), ("vip", "199.00", 2)):
            Ticket.objects.create(event=self.event, code=code, price=price, places=places)
        self.page = f"/registrations/{self.event.pk}/"

    def sign_in(self) -> None:
        self.browser.open(self.page)
        self.browser.fill("username", "ann")
        self.browser.fill("password", "secret")
        self.browser.press("Sign in")

    def send(self, body: str, *, name: str = "attendees.csv") -> None:
        file = self._files / name
        file.write_text(body)
        self.browser.open(self.page)
        self.browser.driver.find_element("id", "file").send_keys(str(file))
        self.browser.press("Send")

    def work(self) -> None:
        """Run what waits, as workers do, in a thread."""
        thread = Thread(target=self._run)
        self.threads.append(thread)
        thread.start()

    def _run(self) -> None:
        try:
            while waiting := list(IdempotencyKey.objects.filter(state__in=[State.PENDING, State.RETRY])):
                for key in waiting:
                    _deliver(key)
                digests = BatchChunk.objects.values_list("digest", flat=True)
                batches.follow(get_store(), list(digests))
        finally:
            connection.close()

    def shows(self, words: str) -> None:
        """Without a click."""
        from selenium.common.exceptions import WebDriverException  # noqa: PLC0415  where it is installed

        def text() -> str:
            try:
                return self.browser.text
            except WebDriverException:  # the page is just being replaced
                return ""

        eventually(lambda: words in text(), f"the page says {words!r}", every=0.1)

    def counts(self, name: str) -> str:
        return str(self.browser.driver.find_element("css selector", f"[data-count='{name}']").text)


def _deliver(key: IdempotencyKey) -> None:
    [task] = [each for each in (register, print_badge, upload_finished) if each.name == key.task]
    call = json.loads(key.message or "")
    headers = {"idempotency": call["options"]["headers"]["idempotency"]}
    task.apply(call["args"], call["kwargs"], task_id=key.task_id, headers=headers)


@pytest.fixture(name="site")
def _site(browser: Browser, settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    settings.ROOT_URLCONF = "example_project.urls"
    settings.LOGIN_URL = "login"
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://127.0.0.1:9/0")  # away: nobody else takes the work
    provider = Provider()
    monkeypatch.setattr(gateway_client, "ask_for_charge", provider)
    monkeypatch.setattr(printer_client, "print_badge", lambda **_job: 1)
    monkeypatch.setattr(register, "retry_backoff", False)
    monkeypatch.setattr(register, "max_retries", 0)
    site = Site(browser, provider, tmp_path)
    yield site
    provider.may.release(10_000)
    for thread in site.threads:
        thread.join()
    relay.forget()


def attendees(count: int) -> str:
    return "".join(f"a{number}@x.org,Ann {number},standard,1\n" for number in range(count))


def test_an_upload_is_followed_to_its_end_without_a_reload(site: Site) -> None:
    browser = site.browser
    site.sign_in()
    site.send(HEADER + attendees(4) + BAD)
    assert "running" in browser.text
    assert browser.complaints == []
    mark = "window.isTheSamePage = true"
    browser.driver.execute_script(mark)

    site.work()
    site.provider.may.release(2)
    eventually(lambda: site.counts("ok") == "2", "two are counted", every=0.1)
    assert site.counts("waiting") == "5"
    bar = browser.driver.find_element("css selector", "progress")
    assert (bar.get_property("value"), bar.get_property("max")) == (2, 7)
    assert browser.driver.execute_script("return window.isTheSamePage === true"), "it was reloaded"

    site.provider.may.release(2)
    site.shows("Not registered")
    site.shows("4\nbadges printed")
    for words in (
        "finished",
        "is not an e-mail address",
        "is registered already, as Ann 1",
        "All 3 as a CSV",
    ):
        assert words in browser.text
    assert browser.complaints == []


def test_a_file_that_is_refused_says_why_on_the_page(site: Site) -> None:
    site.sign_in()
    site.send(HEADER + '"a,b,c,d\n', name="<i>.csv")
    assert "<i>.csv: The row that begins at line 2 cannot be read" in site.browser.text
    assert "Nothing was registered." in site.browser.text
    assert all("400" in one for one in site.browser.complaints)
    assert not Upload.objects.exists()


def test_what_the_provider_did_not_answer_is_tried_again_by_a_click(site: Site) -> None:
    browser = site.browser
    site.provider.is_away = True
    site.provider.may.release(100)
    site.sign_in()
    site.send(HEADER + attendees(3))
    site.work()
    site.shows("needs attention")
    site.shows("503: the bank is down")
    site.threads[0].join()
    site.provider.is_away = False
    browser.press("Try again what the provider did not answer")
    assert "The provider is asked again." in browser.text
    site.work()
    site.shows("3\nregistered")
    site.shows("finished")
    assert Registration.objects.filter(paid_at__isnull=False).count() == 3
    assert browser.complaints == []


def test_without_a_script_the_page_reloads_itself(site: Site) -> None:
    site.sign_in()
    site.browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        file = site._files / "attendees.csv"
        file.write_text(HEADER + attendees(3))
        site.browser.driver.find_element("id", "file").send_keys(str(file))
        site.browser.driver.find_element("xpath", "//button[normalize-space()='Send']").click()
        site.shows("running")
        site.provider.may.release(100)
        site.work()
        site.shows("finished")
        assert site.browser.complaints == []
    finally:
        site.browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_no_page_of_it_complains_or_is_wider_than_the_screen(site: Site, look: str) -> None:
    browser = site.browser
    browser.look(dark=look == "dark", phone=look == "phone")
    seen = []

    def shoot(name: str) -> None:
        browser.shoot(f"upload-{name}-{look}")
        seen.append((name, browser.complaints, browser.is_wider_than_the_screen))

    site.sign_in()
    shoot("event")
    site.send(HEADER + attendees(4) + BAD)
    site.work()
    site.provider.may.release(2)
    eventually(lambda: site.counts("ok") == "2", "two are counted", every=0.1)
    shoot("running")
    site.provider.is_away = True
    site.provider.may.release(100)
    site.shows("needs attention")
    shoot("failed")
    browser.open("/registrations/")
    shoot("index")
    site.send(HEADER + "a,b,c,d\0\n", name="broken.csv")
    browser.shoot(f"upload-refused-{look}")
    assert browser.complaints  # the browser names the status 400
    assert [one for one in seen if one[1:] != ([], False)] == []
