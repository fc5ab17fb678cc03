"""The page before a real worker: clicked twice, the worker killed, and no week paid for twice."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from redis import Redis

from django_idempotent_tasks.messages.relay import relay
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from example_project.study_plans.models import Course, School, Student, StudyPlan
from tests.support.ledger.databases import url_of
from tests.support.ledger.quick import EVERY_APP
from tests.support.ledger.slow_server import Server, Slow
from tests.support.waiting import eventually
from tests.support.workers.processes import Worker

pytestmark = [
    pytest.mark.process,
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, available_apps=EVERY_APP),
    pytest.mark.urls("example_project.urls"),
]
WEEKS = 4
LAST = Slow(
    "the last week",
    f"CREATE TRIGGER crash_slow BEFORE INSERT ON {StudyPlan.week_set.rel.related_model._meta.db_table}",
    f"WHEN (NEW.number = {WEEKS})",
)


class ProjectWorker(Worker):
    """A worker of the example project."""

    def command(self) -> list[str]:
        words = ["worker", "--hostname", f"{self.name}@tests", "--concurrency", "1", "--loglevel", "INFO"]
        return [sys.executable, "-m", "celery", "-A", "example_project", *words]


@pytest.fixture
def broker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database of the server that no other file has. The page cannot reach it: the sweeper can."""
    url = os.environ.get("CELERY_BROKER_URL", "")
    if not url.startswith("redis"):
        pytest.skip("needs Redis")
    url = f"{url.rpartition('/')[0]}/{getattr(request.module, 'BROKER', 7)}"
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://127.0.0.1:9/0")
    relay.forget()
    with Redis.from_url(url) as client:
        client.flushdb()
        yield url
        client.flushdb()
    relay.forget()


@pytest.fixture
def worker(broker: str, tmp_path: Path) -> Iterator[Worker]:
    environment = {
        "DJANGO_SETTINGS_MODULE": "example_project.settings",
        "DATABASE_URL": url_of(connection.settings_dict),
        "CELERY_BROKER_URL": broker,
        "STUDY_PLAN_SECONDS": "0.5",
    }
    worker = ProjectWorker("plans", tmp_path / "worker.log", environment=environment)
    yield worker
    worker.kill()


def test_a_killed_worker_costs_the_week_that_it_was_at_and_a_second_click_nothing(worker: Worker) -> None:
    school = School.objects.create(slug="north", name="North")
    student = Student.objects.create(school=school, name="Ada")
    course = Course.objects.create(school=school, title="Algebra", weeks=WEEKS)
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    page = f"/study-plans/north/{student.pk}/{course.pk}/"

    assert [client.post(f"{page}generate/").status_code for _ in range(2)] == [302, 409]
    with Server("default").holding_up(LAST):  # so that no kill comes too late
        worker.start()
        eventually(lambda: StudyPlan.objects.filter(week_set__number=1).exists(), "the first week is written")
        (child,) = worker.children()
        os.kill(child, signal.SIGKILL)
    assert client.post(f"{page}generate/").status_code == 409
    eventually(lambda: IdempotencyKey.objects.get().state == State.SUCCEEDED, "the plan is finished")

    (plan,) = StudyPlan.objects.all()
    row = IdempotencyKey.objects.get()
    attempts = list(plan.week_set.values_list("attempt", flat=True))
    assert (len(attempts), sorted(attempts), attempts[0], attempts[-1]) == (WEEKS, attempts, 1, 2)
    assert (row.attempts, row.crashes, row.result) == (2, 1, f'{{"plan": {plan.pk}, "cents": {12 * WEEKS}}}')
    assert client.post(f"{page}generate/").status_code == 302
