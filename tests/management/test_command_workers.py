"""What waits for no living worker is found within a minute, named, and never guessed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.models import DuplicateAttempt, Worker
from django_idempotent_tasks.operations import waiting
from django_idempotent_tasks.states import State
from tests.support.fleet import MAIL, held, led, worker
from tests.support.keys import Keys, both, facts, idem

pytestmark = pytest.mark.django_db(databases=["default", "sqlite"])

#: The task of the keys of ``Keys``, and a queue that its calls may be sent to.
TASK = "shop.charge"


def message(**options: Any) -> str:
    return json.dumps({"v": 1, "args": [], "kwargs": {}, "options": options})


def reserved(keys: Keys, queue: str = "celery", **call: Any) -> Call:
    """A call whose message is out, and which nobody has taken."""
    return keys.reserved(keys.call(message=message(queue=queue), **call), wait=9000)


def found(keys: Keys) -> dict[str, str]:
    """The findings of a status by name."""
    return {each["name"]: each["text"] for each in facts(keys, "status")[1]["findings"]}


def later(keys: Keys, work: Callable[[], Any], *, alive: bool = True) -> Any:
    """What is seen 70 seconds later, when the workers are as they were."""
    with shifted(70):
        if alive:
            for row in Worker.objects.using(keys.alias):
                keys.store().note_worker(
                    worker(
                        keys,
                        instance=row.instance,
                        name=row.name,
                        queues=tuple(json.loads(row.queues)),
                        tasks=tuple(json.loads(row.tasks)),
                    )
                )
        return work()


@both
def test_the_workers_are_listed_with_their_queues_and_what_they_run(keys: Keys) -> None:
    claim = held(keys, worker(keys), pid=4711)
    stranger = held(keys, None, pid=17)
    worker(keys, instance="2" * 32, name="gone@host")
    keys.store().worker_stopped("2" * 32)
    code, seen = facts(keys, "workers")
    here, gone = seen["workers"]
    assert (code, seen["more"]) == (0, False)
    assert (here["name"], here["alive"], here["queues"], here["pool"]) == (
        "mail@host",
        True,
        ["celery", "mail"],
        "prefork",
    )
    (run,) = here["runs"]
    assert (run["digest"], run["task"], run["pid"]) == (str(claim.digest), TASK, 4711)
    assert (gone["name"], gone["alive"], gone["runs"]) == ("gone@host", False, [])
    assert [each["digest"] for each in seen["unknown_workers_run"]] == [str(stranger.digest)]
    text = idem("workers", "--database", keys.alias)[1]
    assert "gone@host (stopped " in text
    assert "celery, mail" in text
    assert str(claim.digest) in text
    assert MAIL.instance not in text


@both
def test_without_any_worker_it_says_so(keys: Keys) -> None:
    assert idem("workers", "--database", keys.alias)[1].startswith("No worker has reported")


@both
def test_a_queue_with_waiting_work_that_no_living_worker_consumes_is_a_finding(keys: Keys) -> None:
    led(keys)
    worker(keys, queues=("celery",))
    reserved(keys, queue="mail")
    assert found(keys) == {}, "it has just been sent"
    text = later(keys, lambda: found(keys))["queue_not_consumed"]
    assert text.startswith(
        "No living worker consumes the queue mail, where calls of shop.charge wait for 1 m"
    )
    assert "-Q mail" in text
    worker(keys, instance="2" * 32, name="two@host", queues=("mail",))
    assert later(keys, lambda: found(keys)) == {}


@both
def test_work_that_waits_in_a_queue_that_is_consumed_is_none(keys: Keys) -> None:
    led(keys)
    worker(keys)
    for _ in range(3):
        reserved(keys)
    assert later(keys, lambda: found(keys)) == {}


@both
def test_a_task_that_no_living_worker_knows_is_a_finding_within_a_minute(keys: Keys) -> None:
    led(keys)
    worker(keys, tasks=("shop.renamed",))
    reserved(keys)
    reserved(keys)
    text = later(keys, lambda: found(keys))["task_not_known"]
    assert text.startswith("No worker knows the task shop.charge: ")
    assert "2 calls wait, the first for 1 m" in text
    worker(keys, instance="2" * 32, name="new@host", tasks=(TASK,))
    assert later(keys, lambda: found(keys)) == {}


@both
def test_a_retry_waits_for_a_worker_as_well(keys: Keys) -> None:
    led(keys)
    claim = held(keys, worker(keys, tasks=()))
    assert keys.retry(claim, wait=0)
    assert later(keys, lambda: "task_not_known" in found(keys))


@both
def test_no_living_worker_at_all_is_one_finding(keys: Keys) -> None:
    led(keys)
    worker(keys)
    reserved(keys)
    seen = later(keys, lambda: found(keys), alive=False)
    assert list(seen) == ["no_worker"]
    assert seen["no_worker"].startswith("No worker lives, and 1 key waits for one")


@both
def test_workers_that_do_not_write_of_themselves_make_no_false_alarm(keys: Keys) -> None:
    led(keys)
    call = reserved(keys, queue="mail")
    assert later(keys, lambda: found(keys)) == {}, "nobody has ever written"
    worker(keys, queues=("celery",), tasks=())
    old = held(keys, None)
    keys.in_columns(old, due_at=keys.now(old).replace(year=2200))
    assert later(keys, lambda: found(keys)) == {}, "a worker of an older version holds a key"
    assert facts(keys, "keys", "show", call.identity.digest)[1]["obstacles"] == []


@both
def test_a_call_that_waits_for_its_eta_or_is_not_sent_yet_waits_for_no_worker(keys: Keys) -> None:
    led(keys)
    worker(keys, tasks=(), queues=())
    eta = message(queue="mail", eta="2200-01-01T00:00:00+00:00")
    keys.reserved(keys.call(message=eta), wait=9000)
    keys.reserved(keys.call(), wait=9000, sends=-1)
    only = message(queue="mail", headers={"idempotency": {"sent_only": True}})
    keys.reserved(keys.call(message=only), wait=9000)
    assert later(keys, lambda: found(keys)) == {}


@both
def test_an_exchange_that_only_the_broker_can_follow_is_no_finding(keys: Keys) -> None:
    led(keys)
    worker(keys, queues=("other",))
    keys.reserved(keys.call(message=message(exchange="topics", routing_key="a.b")), wait=9000)
    assert later(keys, lambda: found(keys)) == {}


@both
def test_what_is_read_of_waiting_work_is_bounded(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "FIRST", 4)
    monkeypatch.setattr(waiting, "LAST", 2)
    monkeypatch.setattr(waiting, "MESSAGES", 2)
    led(keys)
    worker(keys, queues=("celery",))
    said = []
    for _ in range(2):
        for _ in range(5):
            reserved(keys, queue="mail")
        with CaptureQueriesContext(connections[keys.alias]) as asked:
            assert "queue_not_consumed" in later(keys, lambda: found(keys), alive=True)
        said.append(len(asked))
    assert said[0] == said[1]


@both
def test_messages_that_were_refused_for_their_identity_are_counted_for_a_day(keys: Keys) -> None:
    led(keys)
    call = keys.claimed().call
    keys.store().record_duplicate(call, place="worker", reason="in_progress")
    assert found(keys) == {}
    for _ in range(2):
        keys.store().record_duplicate(call, place="worker", reason="mismatch")
    assert found(keys)["identity_refused"].startswith(
        "2 messages of the last day named the key of another task or scope and were refused"
    )
    with shifted(25 * 60 * 60):
        assert "identity_refused" not in found(keys)
    assert DuplicateAttempt.objects.using(keys.alias).count() == 3


@both
def test_a_key_says_that_no_worker_knows_its_task_or_consumes_its_queue(keys: Keys) -> None:
    led(keys)
    here = worker(keys, tasks=("shop.renamed",))
    call = reserved(keys, queue="slow")

    def way() -> list[str]:
        shown: list[str] = facts(keys, "keys", "show", call.identity.digest)[1]["obstacles"]
        return shown

    assert way() == [
        "No worker knows the task shop.charge: deploy it, or redrive what fails under its new name."
    ]
    assert (
        "in the way: No worker knows"
        in idem("keys", "show", call.identity.digest, "--database", keys.alias)[1]
    )
    worker(keys, instance="2" * 32, tasks=(TASK,))
    assert way() == ["No living worker consumes its queue slow: start one with -Q."]
    worker(keys, instance="3" * 32, queues=("slow",))
    assert way() == []
    for instance in (here.instance, "2" * 32, "3" * 32):
        keys.store().worker_stopped(instance)
    assert way() == ["No worker lives: nothing takes this call."]


@both
def test_a_key_says_that_no_sweeper_runs(keys: Keys) -> None:
    claim, retried, call = keys.claimed(), keys.claimed(), keys.reserved(sends=-1)
    assert keys.retry(retried, wait=5)

    def way(key: Any) -> list[str]:
        shown: list[str] = facts(keys, "keys", "show", key)[1]["obstacles"]
        return shown

    nothing = "No sweeper runs: nothing will move this key."
    assert way(retried.digest) == way(call.identity.digest) == [nothing]
    assert way(claim.digest) == [
        "No sweeper runs: should the holder fall silent, nothing will move this key."
    ]
    with shifted(claim.lease + 1):
        assert way(claim.digest) == [nothing]
    assert way(keys.completed().digest) == []
    led(keys)
    assert way(retried.digest) == way(call.identity.digest) == way(claim.digest) == []
    assert keys.row(claim).state == State.RUNNING
