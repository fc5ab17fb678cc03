"""``idem failed-jobs``: every failed attempt, and the calls of plain tasks sent again, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import pytest
from celery import Celery
from django.core.management import CommandError
from kombu import Connection

from django_idempotent_tasks.management.failed_jobs import rerun as module
from django_idempotent_tasks.messages.message import Message
from django_idempotent_tasks.models import FailedJob
from django_idempotent_tasks.operations.reruns import rerun
from django_idempotent_tasks.states import State
from django_idempotent_tasks.testing.contract.bench import a_failure
from tests.management.graves import LEDGERS, WHY, dead, everywhere
from tests.support.keys import Keys, facts, idem

pytestmark = pytest.mark.django_db(databases=LEDGERS)

ARGS = ["x" * 1021, [[n, {"n": str(n)}] for n in range(200)]]
#: One a process: tests that run beside each other share a broker.
QUEUE = f"reruns-{uuid4().hex}"
OPTIONS = {"task_id": "P", "queue": QUEUE, "group_id": "G", "root_id": "R", "retries": 3, "priority": 4}


@pytest.fixture
def app(monkeypatch: Any) -> Iterator[Celery]:
    """An app on the tests' broker."""
    with Celery("reruns", set_as_current=False) as app:
        monkeypatch.setattr(module, "project_app", lambda: app)
        yield app
        sent(app)


def plain(
    keys: Keys, *, task: str = "shop.mail", state: State = State.FAILED, has_message: bool = True
) -> int:
    """A captured failure of a task without a key."""
    text = Message.of(task, ARGS, {"to": "a@b"}, OPTIONS).encode(limit=10**6)
    failure, stored = a_failure(), text if has_message else None
    keys.store().record_plain(task, "P", attempt=4, state=state, failure=failure, message=stored)
    return FailedJob.objects.using(keys.alias).latest("id").pk


def sent(app: Celery) -> list[Any]:
    """The messages that wait in the queue."""
    found = []
    with (
        app.connection_for_write() as connection,
        connection.SimpleQueue(QUEUE) as queue,
        suppress(queue.Empty),
    ):
        while True:
            found.append(queue.get(block=False))
            found[-1].ack()
    return found


@everywhere
def test_attempts_are_listed_newest_first_by_their_filters(keys: Keys) -> None:
    first = dead(keys, task="shop.refund", signature="1" * 16)
    last = plain(keys)
    for words, number in (
        ((), 2),
        (("--plain",), 1),
        (("--task", "shop.refund"), 1),
        (("--signature", "1" * 16), 1),
        (("--task-id", "P"), 1),
        (("--state", "failed"), 2),
        (("--state", "retry"), 0),
        (("--older-than", "1h"), 0),
        (("--since", "1h", "--category", "retryable"), 2),
    ):
        assert len(facts(keys, "failed-jobs", "list", *words)[1]["failed_jobs"]) == number, words
    jobs = facts(keys, "failed-jobs", "list")[1]["failed_jobs"]
    assert (jobs[0]["id"], jobs[1]["digest"]) == (last, str(first.digest))
    assert facts(keys, "failed-jobs", "list", "--limit", 1)[1]["more"] is True


@everywhere
def test_arguments_and_traceback_are_shown_only_when_they_are_asked_for(keys: Keys) -> None:
    number = plain(keys)
    words = ("failed-jobs", "show", number, "--database", keys.alias)
    for form in ("text", "json"):
        hidden = idem(*words, "--format", form)[1]
        assert "a@b" not in hidden
        assert "Traceback" not in hidden
        assert "a@b" in idem(*words, "--payload", "--format", form)[1]
        assert "Traceback" in idem(*words, "--traceback", "--format", form)[1]
    assert facts(keys, "failed-jobs", "show", number + 1) == (1, {"failed_job": None})


@everywhere
def test_a_rerun_sends_the_real_arguments_under_a_new_task_id_and_without_the_ties_of_the_failed_call(
    keys: Keys, app: Celery
) -> None:
    number = plain(keys)
    assert facts(keys, "failed-jobs", "rerun", number)[1]["outcome"] == "dry run"
    assert sent(app) == []
    with pytest.raises(CommandError, match="--reason must say why"):
        facts(keys, "failed-jobs", "rerun", number, "--yes")
    code, seen = facts(keys, "failed-jobs", "rerun", number, *WHY)
    assert (code, seen["outcome"]) == (0, "sent")
    [message] = sent(app)
    args, kwargs, _ = message.decode()
    assert (args, kwargs) == (json.loads(json.dumps(ARGS)), {"to": "a@b"})
    headers = message.headers
    assert headers["id"] == seen["task_id"] == str(UUID(seen["task_id"])) != "P"
    assert (headers["group"], headers["retries"], headers["root_id"]) == (None, 0, headers["id"])
    assert (headers["task"], message.properties["priority"]) == ("shop.mail", 4)


@everywhere
def test_of_two_reruns_one_is_sent_and_again_is_a_word_of_its_own(keys: Keys, app: Celery) -> None:
    number = plain(keys)
    job = FailedJob.objects.using(keys.alias).get(pk=number)
    assert facts(keys, "failed-jobs", "rerun", number, *WHY)[0] == 0
    assert "look again" in rerun(app, keys.store(), job, by="ann").problem
    code, seen = facts(keys, "failed-jobs", "rerun", number, *WHY)
    assert (code, seen["outcome"], seen["state"]) == (1, "not possible", "rerun")
    assert len(sent(app)) == 1
    assert facts(keys, "failed-jobs", "rerun", number, "--again", *WHY)[0] == 0
    assert len(sent(app)) == 1
    seen_by_two = FailedJob.objects.using(keys.alias).get(pk=number)
    problems = [rerun(app, keys.store(), seen_by_two, by="ann").problem for _ in range(2)]
    assert [problem != "" for problem in problems] == [False, True]
    assert len(sent(app)) == 1


@everywhere
def test_where_the_broker_is_away_it_can_be_tried_again(keys: Keys, app: Celery, monkeypatch: Any) -> None:
    number = plain(keys)
    with monkeypatch.context() as away:
        away.setattr(app.conf, "broker_write_url", "redis://127.0.0.1:1/0")
        away.setattr(app, "connection_for_write", lambda **_: Connection("redis://127.0.0.1:1/0"))
        code, seen = facts(keys, "failed-jobs", "rerun", number, *WHY)
    assert (code, seen["outcome"], seen["state"]) == (1, "not sent", "failed")
    assert facts(keys, "failed-jobs", "rerun", number, *WHY)[1]["outcome"] == "sent"


@everywhere
def test_what_must_not_be_rerun_says_what_to_do_instead(keys: Keys, app: Celery) -> None:
    claim = dead(keys)
    guarded = facts(keys, "failed-jobs", "list")[1]["failed_jobs"][0]["id"]
    for number, words in (
        (guarded, f"'idem dead-letters redrive {claim.digest}'"),
        (plain(keys, state=State.RETRY), "Celery retried the call by itself"),
        (plain(keys, has_message=False), "message is not stored"),
    ):
        code, seen = facts(keys, "failed-jobs", "rerun", number, *WHY)
        assert code == 1
        assert words in seen["text"]
    assert sent(app) == []


def test_a_task_that_is_not_known_here_is_sent_with_a_warning(app: Celery) -> None:
    keys = Keys("default")
    assert "was it renamed or removed?" in facts(keys, "failed-jobs", "rerun", plain(keys))[1]["text"]
    assert app.main == "reruns"


@pytest.mark.parametrize("word", ["0", "x", "1.5", "9" * 30])
def test_a_number_that_no_list_shows_is_an_error_with_2(word: str) -> None:
    with pytest.raises(CommandError, match="is no id") as error:
        idem("failed-jobs", "show", word)
    assert error.value.returncode == 2


@everywhere
def test_what_a_project_hides_is_hidden_here_too(keys: Keys, settings: Any) -> None:
    settings.IDEMPOTENT_TASKS = {"REDACT": lambda _task, arguments: dict.fromkeys(arguments, "hidden")}
    text = '{"v": 1, "args": ["4242"], "kwargs": {"card": "4242"}, "options": {}}'
    keys.store().record_plain(
        "shop.plain", "T", attempt=1, state=State.FAILED, failure=a_failure(), message=text
    )
    number = FailedJob.objects.using(keys.alias).get().pk
    for form in ("text", "json"):
        _, printed = idem("failed-jobs", "show", number, "--payload", "--format", form, database=keys.alias)
        assert "hidden" in printed
        assert "4242" not in printed
