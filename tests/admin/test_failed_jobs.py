"""Failed jobs: their errors for those who may see them, and a plain task's call published once more."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from django_idempotent_tasks.messages.message import Message
from django_idempotent_tasks.models import FailedJob
from django_idempotent_tasks.operations import reruns
from django_idempotent_tasks.states import State
from django_idempotent_tasks.testing.contract.bench import a_failure
from tests.admin.conftest import HOSTILE, Person, at_most, logged, messages_of, page, seen
from tests.admin.test_keys import inert
from tests.support.keys import Keys

pytestmark = pytest.mark.django_db
JOB = "failedjob"
OPTIONS = {"task_id": "old", "queue": "slow", "retries": 3, "chord": {"x": 1}, "expires": "2020-01-01"}
MESSAGE = json.dumps({"v": 1, "args": [12345678901234567890], "kwargs": {"card": "4242"}, "options": OPTIONS})


def captured(
    keys: Keys, *, task: str = "legacy.mail", message: str | None = MESSAGE, **failure: Any
) -> FailedJob:
    """A failure of a plain task."""
    keys.store().record_plain(
        task, "old", attempt=1, state=State.FAILED, failure=a_failure(**failure), message=message
    )
    return FailedJob.objects.latest("pk")


@pytest.fixture
def sent(monkeypatch: Any) -> list[Message]:
    """What would have gone to the broker; the broker itself has its own tests."""
    found: list[Message] = []

    def publish(self: Message, _app: Any, **_options: Any) -> None:
        found.append(self)

    monkeypatch.setattr(Message, "publish", publish)
    return found


def test_hostile_text_is_inert(root: Client, keys: Keys) -> None:
    job = captured(keys, task=HOSTILE, error=HOSTILE, description=HOSTILE, traceback=HOSTILE)
    inert(root.get(page(JOB)).content.decode())
    inert(root.get(page(JOB, "change", job.pk)).content.decode())
    inert(root.get(page(JOB, "rerun", job.pk)).content.decode())


def test_a_traceback_and_arguments_are_for_those_who_may_see_them(person: Person, keys: Keys) -> None:
    job = captured(keys, traceback="File shop.py, line 7")
    plain = person("view_failedjob").get(page(JOB, "change", job.pk)).content.decode()
    assert "line 7" not in plain
    assert "4242" not in plain
    seer = person("view_failedjob", "view_traceback", "view_payload", name="eve")
    full = seer.get(page(JOB, "change", job.pk)).content.decode()
    assert "line 7" in full
    assert "4242" in full
    assert "12345678901234567890" in full, "numbers are exact"


def test_a_rerun_is_the_same_call_under_a_new_task_id(root: Client, keys: Keys, sent: list[Message]) -> None:
    job = captured(keys)
    url = page(JOB, "rerun", job.pk)
    root.get(url)
    assert sent == []
    told = root.post(url, {"seen": seen(root, url), "reason": "the mail server is back"}, follow=True)
    (message,) = sent
    assert (message.args, message.kwargs) == ([12345678901234567890], {"card": "4242"})
    assert message.options["task_id"] not in {"old", None}
    assert message.options == {"queue": "slow", "task_id": message.options["task_id"]}
    assert str(message.options["task_id"]) in messages_of(told)
    assert logged() == ["Run it again: the mail server is back"]


def test_a_second_click_runs_nothing_and_names_the_first(
    root: Client, person: Person, keys: Keys, sent: list[Message]
) -> None:
    job = captured(keys)
    url = page(JOB, "rerun", job.pk)
    second = person("view_failedjob", "rerun_failedjob")
    mark = seen(second, url)
    root.post(url, {"seen": seen(root, url), "reason": "a"})
    told = second.post(url, {"seen": mark, "reason": "b"}, follow=True)
    assert "somebody else has just rerun this job" in messages_of(told)
    assert len(sent) == 1
    assert "root ran it again" in second.get(url).content.decode()


def test_a_broker_that_is_away_is_said_and_nothing_is_logged(
    root: Client, keys: Keys, monkeypatch: Any
) -> None:
    job = captured(keys)
    url = page(JOB, "rerun", job.pk)

    def away(_app: Any) -> Any:
        raise ConnectionRefusedError

    monkeypatch.setattr(reruns, "bounded_connection", away)
    told = root.post(url, {"seen": seen(root, url), "reason": "a"}, follow=True)
    assert "the broker did not take the message" in messages_of(told)
    assert logged() == []


def test_an_attempt_of_a_key_leads_to_its_key_and_is_not_run_again(
    root: Client, person: Person, keys: Keys, sent: list[Message]
) -> None:
    claim = keys.claimed()
    keys.fail(claim)
    job = FailedJob.objects.latest("pk")
    shown = root.get(page(JOB, "change", job.pk))
    assert shown.context["key_url"] == page("idempotencykey", "change", claim.digest)
    assert shown.context["actions"] == []
    url = page(JOB, "rerun", job.pk)
    assert "redrive its dead letter" in messages_of(root.get(url, follow=True))
    viewer = person("view_failedjob")
    assert viewer.post(url, {"seen": "0", "reason": "a"}).status_code == 403
    assert sent == []


def test_lists_and_pages_take_a_bounded_number_of_statements(root: Client, keys: Keys) -> None:
    jobs = [captured(keys) for _ in range(20)]
    root.get(page(JOB))
    queries: tuple[dict[str, str], ...] = (
        {},
        {"signature": "0123456789abcdef"},
        {"task": "legacy.mail"},
        {"q": "old"},
    )
    for query in queries:
        with at_most(15 if "q" in query else 8):
            assert len(root.get(page(JOB), query).context["cl"].result_list) == 20
    with at_most(6):
        root.get(page(JOB, "change", jobs[0].pk))
