"""A worker whose atomic body is the victim of a deadlock runs it again, without a retry of the task's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_idempotent_tasks.states import State
from tests.sample import atomic
from tests.sample.models import Effect
from tests.support.ledger.session import Session
from tests.support.waiting import PATIENCE, eventually
from tests.support.workers.site import Site

pytestmark = pytest.mark.process


@pytest.fixture
def rival(own_site: Site) -> Iterator[Session]:
    session = Session(own_site.rows.alias)
    yield session
    session.close()


def test_the_victim_of_a_deadlock_is_run_again_and_done_once(
    own_site: Site, key: str, rival: Session
) -> None:
    left, right = f"{key}-l", f"{key}-r"
    for name in (left, right):
        Effect.objects.using(own_site.rows.alias).create(key=name, attempt=0, token=0)
    change = "UPDATE sample_effect SET note = note || 'theirs' WHERE key = '{}'"
    with own_site.running("crossing", "--concurrency", "1"):
        own_site.send(atomic.crossing, key, left, right)
        eventually((own_site.directory / f"{key}.1.visited").exists, "it has changed one row")
        rival.begin()
        rival.sql(change.format(right))
        pid = rival.pid
        waiting = rival.start(lambda store: store._count(change.format(left), {}))  # type: ignore[attr-defined]
        watcher = Session(own_site.rows.alias)
        eventually(lambda: watcher.sql(f"SELECT cardinality(pg_blocking_pids({pid})) > 0"), "the rival waits")
        watcher.close()
        own_site.journal.open(f"{key}.1", f"{key}.2")
        waiting.result(PATIENCE)
        rival.commit()
        row = own_site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, row.crashes, len(own_site.rows.effects(key))) == (1, 0, 1)
    assert own_site.journal.starts(key) == 2
    assert own_site.rows.failed(key) == []
    assert [own_site.rows.effects(name)[0].note for name in (left, right)] == ["theirsours"] * 2
