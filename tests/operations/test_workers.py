"""Who holds a key is a name: the worker, its process, since when, and whether the worker still speaks."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_idempotent_tasks.ledger.moments import database_now, exact
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import FailedJob, IdempotencyKey, Worker
from django_idempotent_tasks.operations import workers
from django_idempotent_tasks.operations.workers import fleet, holder_of, living_workers, overview
from django_idempotent_tasks.sweeper.prune import WORKER_KEEP, Tidying
from tests.support.fleet import held, worker
from tests.support.keys import Keys, both

pytestmark = pytest.mark.django_db(databases=["default", "sqlite"])


@both
def test_a_holder_is_named_by_worker_and_process_and_since_when(keys: Keys) -> None:
    claim = held(keys, worker(keys), pid=4711)
    began = keys.row(claim).started_at
    holder = holder_of(keys.store(), claim.owner, began)
    local = timezone.localtime(exact(began)) if began else None
    assert local
    assert (holder.name, holder.pid, holder.since, holder.is_alive) == ("mail@host", 4711, began, True)
    assert holder.text == f"mail@host, pid 4711, since {local:%H:%M:%S}"
    assert holder.who == "mail@host, pid 4711"


@both
def test_a_holder_of_another_day_is_named_with_the_date(keys: Keys) -> None:
    claim = held(keys, worker(keys))
    earlier = database_now(keys.store()) - timedelta(days=2)
    text = holder_of(keys.store(), claim.owner, earlier).text
    assert re.search(r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", text)


@both
def test_a_holder_whose_worker_is_silent_or_has_ended_is_shown_so(keys: Keys) -> None:
    claim, other = held(keys, worker(keys)), held(keys, worker(keys, instance="2" * 32, name="two@host"))
    with shifted(50):
        assert holder_of(keys.store(), claim.owner).is_alive
    with shifted(185):
        silent = holder_of(keys.store(), claim.owner)
        assert not silent.is_alive
        assert re.fullmatch(r"mail@host, pid 4711 \(not seen for 3 m ([5-9]|[1-4]\d) s\)", silent.who)
        keys.store().worker_stopped("2" * 32)
        ended = holder_of(keys.store(), other.owner)
        assert not ended.is_alive
        assert re.fullmatch(r"two@host, pid 4711 \(stopped [1-4]?\d s ago\)", ended.who)
        assert living_workers(keys.store()) == []


@both
def test_a_holder_of_an_unknown_worker_is_no_bare_number(keys: Keys) -> None:
    claim = held(keys, None, pid=4711)
    assert holder_of(keys.store(), claim.owner).text == "a process of an unknown worker (pid 4711)"
    for odd in (None, "", "nonsense", ":x:", f"{'1' * 32}:{'9' * 40}:x"):
        assert holder_of(keys.store(), odd).text == "a process of an unknown worker"
    assert not holder_of(keys.store(), claim.owner).is_alive


@both
def test_names_of_hosts_cannot_write_to_a_terminal(keys: Keys) -> None:
    claim = held(keys, worker(keys, name="mail@\x1b[2Jhost\n"))
    assert not re.search(r"[\x00-\x1f]", holder_of(keys.store(), claim.owner).text)


@both
def test_many_holders_are_named_by_one_look_at_the_workers(keys: Keys) -> None:
    claims = [held(keys, worker(keys, instance=digit * 32, name=f"{digit}@host")) for digit in "12345"]
    connection = connections[keys.alias]
    with CaptureQueriesContext(connection) as asked:
        known = fleet(keys.store())
        assert [known.holder_of(each.owner).name for each in claims] == [f"{n}@host" for n in "12345"]
    assert len(asked) == 2  # the clock and the workers


@both
def test_the_overview_shows_who_lives_who_is_gone_and_what_each_runs(keys: Keys) -> None:
    gone = worker(keys, instance="2" * 32, name="gone@host")
    here = worker(keys)
    first, second = held(keys, here, pid=1), held(keys, here, pid=2)
    stranger = held(keys, None)
    keys.store().worker_stopped(gone.instance)
    seen = overview(keys.store())
    assert [(each.worker.name, each.is_alive, each.queues) for each in seen.workers] == [
        ("mail@host", True, ["celery", "mail"]),
        ("gone@host", False, ["celery", "mail"]),
    ]
    assert [row.digest for row in seen.workers[0].runs] == [first.digest, second.digest]
    assert (seen.workers[1].runs, [row.digest for row in seen.strangers]) == ([], [stranger.digest])
    assert not seen.is_part
    with shifted(2 * 60 * 60):
        later = overview(keys.store())
    assert later.workers == []
    assert len(later.strangers) == 3, "what a worker that is long gone has left is still shown"


@both
def test_the_overview_reads_a_bounded_number_of_rows(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "LOOKED_AT", 2)
    here = worker(keys)
    for _ in range(4):
        held(keys, here)
    with CaptureQueriesContext(connections[keys.alias]) as asked:
        seen = overview(keys.store())
    assert seen.is_part
    assert len(seen.workers[0].runs) == 2
    assert len(asked) == 3
    assert IdempotencyKey.objects.using(keys.alias).count() == 4


@both
def test_the_sweeper_forgets_a_worker_that_was_silent_for_a_day(keys: Keys) -> None:
    worker(keys)
    with shifted(WORKER_KEEP - 60):
        Tidying().go_on(keys.store())
        assert Worker.objects.using(keys.alias).count() == 1
    with shifted(WORKER_KEEP + 60):
        Tidying().go_on(keys.store())
    assert not Worker.objects.using(keys.alias).exists()


@both
def test_an_attempt_whose_owner_fell_silent_is_recorded_with_its_workers_name(keys: Keys) -> None:
    freed, taken, strange = held(keys, worker(keys)), held(keys, worker(keys)), held(keys, None)
    with shifted(40):
        takeover = keys.store().claim_open(taken.call, owner="w:2:x", lease=30, seen=keys.seen(taken.call))
        assert takeover is not None
        keys.store().sweep(bite=9, republish=60)
    jobs = {job.digest: job.worker for job in FailedJob.objects.using(keys.alias)}
    assert (jobs[freed.digest], jobs[taken.digest]) == ("mail@host", "mail@host")
    assert workers.worker_words(jobs[strange.digest]) == "a process of an unknown worker (pid 4711)"
    assert workers.worker_words("mail@host") == "mail@host"
