"""The example's page of a study plan before a real browser: two clicks, one job, seen to its end."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from django_idempotent_tasks.messages.relay import relay
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from example_project.study_plans import author
from example_project.study_plans.models import Course, School, Student
from example_project.study_plans.tasks import generate_plan
from tests.admin.browser.site import Browser
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.thorough]


class Author:
    """Writes a week when it is told to."""

    def __init__(self) -> None:
        self.weeks = [Event() for _ in range(9)]

    def __call__(self, course: str, student: str, number: int, *, idempotency_key: str) -> author.Week:  # noqa: ARG002
        assert self.weeks[number].wait(30)
        text = f"{course}, week {number}, for {student}"
        return {"number": number, "text": text, "cents": author.CENTS}


class Site:
    """A school with a pair, and a worker in this process."""

    def __init__(self, browser: Browser, author: Author) -> None:
        self.browser, self.author = browser, author
        self.threads: list[Thread] = []
        teacher = User.objects.create_user("ann", password="secret")
        school = School.objects.create(slug="north", name="North School")
        school.teachers.add(teacher)
        student = Student.objects.create(school=school, name="Ada <b>Lovelace</b>")
        course = Course.objects.create(school=school, title="Algebra", weeks=3)
        self.page = f"/study-plans/north/{student.pk}/{course.pk}/"
        self.arguments = {"school": "north", "student_id": student.pk, "course_id": course.pk}

    def sign_in(self) -> None:
        self.browser.open(self.page)
        self.browser.fill("username", "ann")
        self.browser.fill("password", "secret")
        self.browser.press("Sign in")

    def work(self) -> None:
        """Run what is reserved, as the worker that gets its message."""
        thread = Thread(target=self._run, args=[IdempotencyKey.objects.get().task_id])
        self.threads.append(thread)
        thread.start()

    def _run(self, task_id: str) -> None:
        try:
            generate_plan.apply(kwargs=self.arguments, task_id=task_id)
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


@pytest.fixture(name="site")
def _site(browser: Browser, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    settings.ROOT_URLCONF = "example_project.urls"
    settings.LOGIN_URL = "login"
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://127.0.0.1:9/0")  # away: nobody else takes the work
    author_ = Author()
    monkeypatch.setattr(author, "write_week", author_)
    site = Site(browser, author_)
    yield site
    for week in author_.weeks:
        week.set()
    for thread in site.threads:
        thread.join()
    relay.forget()


def test_two_clicks_one_job_its_progress_its_end_and_another_one(site: Site) -> None:
    browser = site.browser
    site.sign_in()
    browser.press("Generate")
    assert "pending, not begun" in browser.text
    assert browser.complaints == []
    browser.press("Generate")
    assert "Your click was refused" in browser.text
    assert IdempotencyKey.objects.get().task_id in browser.text
    assert all("409" in one for one in browser.complaints)

    site.work()
    site.shows("writing week 1")
    assert "running, attempt 1" in browser.text
    assert "Algebra, week 1" not in browser.text
    site.author.weeks[1].set()
    site.shows("writing week 2")
    site.shows("Algebra, week 1, for Ada")  # without a reload
    bar = browser.driver.find_element("css selector", "progress")
    assert (bar.get_property("value"), bar.get_property("max")) == (1, 3)
    browser.press("Cancel")
    assert "Cancelled." in browser.text
    assert "Algebra, week 1" in browser.text
    assert IdempotencyKey.objects.get().state == State.CANCELLED
    site.author.weeks[2].set()
    site.threads[0].join()

    browser.press("Generate")
    site.work()
    site.author.weeks[3].set()
    site.shows("succeeded")
    browser.press("Generate again")
    site.shows("pending")
    assert IdempotencyKey.objects.get().generation == 2
    assert browser.complaints == []


def test_without_a_script_the_page_reloads_itself(site: Site) -> None:
    site.sign_in()
    site.browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        site.browser.driver.find_element("xpath", "//button[normalize-space()='Generate']").click()
        site.shows("pending")
        site.work()
        for number in (1, 2, 3):
            site.author.weeks[number].set()
        site.shows("succeeded")
        assert site.browser.complaints == []
    finally:
        site.browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_no_page_of_it_complains_or_is_wider_than_the_screen(site: Site, look: str) -> None:
    browser = site.browser
    browser.look(dark=look == "dark", phone=look == "phone")
    seen = []

    def shoot(name: str) -> None:
        browser.shoot(f"plan-{name}-{look}")
        seen.append((name, browser.complaints, browser.is_wider_than_the_screen))

    browser.open(site.page)
    shoot("login")
    site.sign_in()
    shoot("new")
    browser.press("Generate")
    site.work()
    site.author.weeks[1].set()
    site.shows("writing week 2")
    shoot("running")
    browser.press("Generate")
    browser.shoot(f"plan-refused-{look}")
    assert browser.complaints
    browser.press("Cancel")
    shoot("cancelled")
    browser.open("/study-plans/")
    shoot("index")
    root = User.objects.create_superuser("boss", password="secret")
    browser.driver.delete_all_cookies()
    browser.sign_in(root.username)
    browser.open("/admin/django_idempotent_tasks/duplicateattempt/by-scope/")
    shoot("refusals")
    browser.open("/admin/study_plans/school/")
    shoot("schools")
    assert [one for one in seen if one[1:] != ([], False)] == []
