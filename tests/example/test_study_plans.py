"""The page of a study plan: one generation however often it is asked for, and no week is paid for twice."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import OperationalError
from django.test import Client
from pytest_django import Settings

from django_idempotent_tasks.models import DuplicateAttempt, IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from example_project.study_plans import author
from example_project.study_plans.models import Course, School, Student, StudyPlan
from tests.support.ledger.quick import EVERY_APP
from tests.support.post import only_row

pytestmark = [pytest.mark.django_db, pytest.mark.urls("example_project.urls")]
JSON = {"Accept": "application/json"}


@pytest.fixture(autouse=True)
def _quick(example_settings: Settings) -> None:
    example_settings.STUDY_PLAN_SECONDS = 0
    example_settings.LOGIN_URL = "login"


class Desk:
    """A teacher of one school in front of the page of a student and a course."""

    def __init__(self, slug: str) -> None:
        school, _ = School.objects.get_or_create(slug=slug, name=slug.title())
        teacher = User.objects.create_user(f"teacher-{slug}", password="secret")
        school.teachers.add(teacher)
        student = Student.objects.create(school=school, name="Ada")
        course = Course.objects.create(school=school, title="Algebra", weeks=3)
        self.page = f"/study-plans/{slug}/{student.pk}/{course.pk}/"
        self.client = Client()
        self.client.force_login(teacher)

    def click(self, **headers: str) -> Any:
        """The button."""
        return self.client.post(f"{self.page}generate/", headers=headers)

    def look(self) -> str:
        """What the page says."""
        return self.client.get(self.page).content.decode()

    def cancel(self, job: str) -> Any:
        """The other button."""
        return self.client.post(f"{self.page}cancel/", {"job": job}, follow=True)


@pytest.fixture
def desk() -> Desk:
    return Desk("north")


def test_a_click_is_accepted_and_the_second_one_refused_with_the_job_that_runs(desk: Desk) -> None:
    assert desk.click().status_code == 302
    second = desk.click()
    assert (second.status_code, 1 <= int(second["Retry-After"]) <= 10) == (409, True)
    html = second.content.decode()
    assert "Your click was refused" in html
    assert only_row().task_id in html
    assert (only_row().scope, only_row().state, DuplicateAttempt.objects.get().scope) == (
        "north",
        State.PENDING,
        "north",
    )


def test_a_school_s_name_in_other_letters_is_no_other_school(desk: Desk) -> None:
    desk.click(**JSON)
    again = desk.client.post(f"{desk.page.upper().replace('STUDY-PLANS', 'study-plans')}generate/")
    assert again.status_code in {404, 409}, "MariaDB finds it, PostgreSQL does not"
    assert IdempotencyKey.objects.count() == 1


def test_a_json_client_is_answered_in_json_and_follows_the_job(desk: Desk) -> None:
    first, second = desk.click(**JSON), desk.click(**JSON)
    assert (first.status_code, first["Location"]) == (202, f"/jobs/{only_row().task_id}/")
    assert (second.status_code, second["Content-Type"]) == (409, "application/problem+json")
    assert second.json()["job"]["id"] == first.json()["id"]
    assert desk.client.get(first["Location"]).json()["state"] == "pending"
    assert desk.client.post(first.json()["cancel_url"]).json()["state"] == "cancelled"


def test_a_running_job_is_looked_at_soon_however_long_its_lease_is(desk: Desk) -> None:
    job = desk.click(**JSON)
    now = only_row().created_at
    IdempotencyKey.objects.update(state=State.RUNNING, open_at=now + timedelta(seconds=60))
    assert desk.client.get(job["Location"])["Retry-After"] == "3"
    assert desk.click(**JSON)["Retry-After"] == "10"
    assert "a worker has begun" in desk.look()


def test_the_site_begins_at_the_plans(desk: Desk) -> None:
    assert desk.client.get("/")["Location"] == "/study-plans/"


def test_nothing_of_a_school_is_for_the_teachers_of_another(desk: Desk) -> None:
    job = desk.click(**JSON).json()
    other = Desk("south")
    for address in (desk.page, f"/jobs/{job['id']}/"):
        assert other.client.get(address).status_code == 404
    for address in (f"{desk.page}generate/", f"{desk.page}cancel/", job["cancel_url"]):
        assert other.client.post(address).status_code == 404
    assert other.click().status_code == 302
    assert "North" not in other.client.get("/study-plans/").content.decode()
    assert sorted(IdempotencyKey.objects.values_list("scope", "state")) == [("north", 1), ("south", 1)]


def test_who_is_not_signed_in_is_asked_to(desk: Desk) -> None:
    stranger = Client()
    asked = stranger.post(f"{desk.page}generate/")
    assert (asked.status_code, asked["Location"].startswith("/login/?next=")) == (302, True)
    assert stranger.get("/jobs/x/").status_code == 404
    data = {"username": "teacher-north", "password": "secret", "next": desk.page}
    assert stranger.post("/login/", data)["Location"] == desk.page


@pytest.mark.usefixtures("eager")
def test_a_finished_plan_is_shown_and_may_be_made_anew_at_once(desk: Desk) -> None:
    for number in (1, 2):
        assert desk.click().status_code == 302
        assert (only_row().state, StudyPlan.objects.count()) == (State.SUCCEEDED, number)
        html = desk.look()
        assert ("Generate again" in html, "mock exam" in html, html.count("<li value=")) == (True, False, 3)


@pytest.mark.usefixtures("eager")
# In a transaction, what the first attempt saved would be rolled back.
@pytest.mark.django_db(transaction=True, available_apps=EVERY_APP)
def test_an_attempt_that_fails_costs_the_week_that_it_was_at(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, str]] = []
    write = author.write_week

    def failing_once(course: str, student: str, number: int, *, idempotency_key: str) -> author.Week:
        asked.append((number, idempotency_key))
        if len(asked) == 3:
            raise OperationalError
        return write(course, student, number, idempotency_key=idempotency_key)

    monkeypatch.setattr(author, "write_week", failing_once)
    desk.click()
    assert [number for number, _key in asked] == [1, 2, 3, 3]
    assert asked[2] == asked[3], "the provider was asked under another key"
    [plan] = StudyPlan.objects.all()
    assert list(plan.week_set.values_list("number", "attempt")) == [(1, 1), (2, 1), (3, 2)]
    assert plan.finished_at is not None


@pytest.mark.usefixtures("eager")
def test_a_plan_that_failed_says_why_and_may_be_asked_for_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: Any, **_named: Any) -> author.Week:
        raise RuntimeError("<b>no ink</b>")

    with monkeypatch.context() as patch:
        patch.setattr(author, "write_week", broken)
        desk.click()
    html = desk.look()
    assert "&lt;b&gt;no ink&lt;/b&gt;" in html
    assert (only_row().state, only_row().reason) == (State.FAILED, Reason.RETRIES_USED_UP)
    desk.click()
    assert only_row().state == State.SUCCEEDED


def test_a_running_job_shows_how_far_it_is_without_a_script(desk: Desk) -> None:
    desk.click()
    progress = '{"done": 1, "total": 3, "note": "writing <week> 2"}'
    IdempotencyKey.objects.update(state=State.RUNNING, attempts=1, progress=progress)
    html = desk.look()
    assert 'max="3" value="1"' in html
    assert "writing &lt;week&gt; 2" in html
    assert '<noscript><meta http-equiv="refresh"' in html


def test_only_the_job_that_was_seen_is_cancelled(desk: Desk) -> None:
    desk.click()
    assert "nothing to cancel" in desk.cancel("another-job").content.decode()
    assert only_row().state == State.PENDING
    assert "Cancelled." in desk.cancel(only_row().task_id).content.decode()
    assert only_row().state == State.CANCELLED
    assert desk.click().status_code == 302
    assert only_row().state == State.PENDING


def test_an_administrator_without_schools_makes_some_to_try_and_nobody_else_does() -> None:
    client = Client()
    client.force_login(User.objects.create_user("ann"))
    assert "Make two schools" not in client.get("/study-plans/").content.decode()
    assert client.post("/study-plans/seed/").status_code == 403
    client.force_login(User.objects.create_superuser("root"))
    assert "Make two schools" in client.get("/study-plans/").content.decode()
    html = client.post("/study-plans/seed/", follow=True).content.decode()
    assert html.count("whose password is shown once") == 2
    assert client.post("/study-plans/seed/").status_code == 403
    assert (School.objects.count(), Student.objects.count(), Course.objects.count()) == (2, 4, 3)
    printed = StringIO()
    call_command("seed_study_plans", stdout=printed)
    assert printed.getvalue() == ""
