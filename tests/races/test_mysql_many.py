"""Two senders of many calls on MariaDB or MySQL: one waits for the other, and none deadlocks."""

from __future__ import annotations

import pytest
from django.test import override_settings

from django_idempotent_tasks.ledger import many
from django_idempotent_tasks.ledger.values import Refused
from django_idempotent_tasks.models import IdempotencyKey
from tests.races.conftest import OpenSession
from tests.races.mysql import ALIAS, MysqlStage, mark
from tests.races.staging import reserve
from tests.races.test_many_at_once import COUNT, accept, by, reserved
from tests.races.watch import Watch
from tests.support.ledger.session import Session
from tests.support.post import Post, post
from tests.support.waiting import PATIENCE

__all__ = ["post"]
pytestmark = mark


@pytest.fixture
def one(open_session: OpenSession) -> Session:
    return open_session(ALIAS)


@pytest.fixture
def two(open_session: OpenSession) -> Session:
    return open_session(ALIAS)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setattr(many, "time", watch)
    return watch


class TestTwoSenders(MysqlStage):
    @pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
    def test_of_the_same_keys_in_opposite_orders_wait_for_each_other_in_one_order(
        self, one: Session, two: Session, watch: Watch, commits: bool
    ) -> None:
        calls = [self.call() for _ in range(COUNT)]
        one.begin()
        two.begin()
        assert reserved(one.do(accept(calls))) == COUNT
        watch.may_go_on.clear()
        waits = two.start(accept(by("B", calls[::-1])))
        assert watch.has_napped.wait(PATIENCE)
        one.commit() if commits else one.rollback()
        watch.may_go_on.set()
        assert reserved(waits.result(PATIENCE)) == (0 if commits else COUNT)
        two.commit()
        assert {self.seen(call).task_id for call in calls} == {"A" if commits else "B"}

    def test_are_refused_after_two_seconds_and_told_which_key_is_held(
        self, one: Session, two: Session, watch: Watch
    ) -> None:
        calls = [self.call() for _ in range(COUNT)]
        one.begin()
        one.do(reserve(self.call("B", of=calls[11])))
        two.begin()
        outcomes = two.do(accept(calls))
        assert [place for place, each in outcomes.items() if isinstance(each, Refused)] == [11]
        assert watch.naps
        one.commit()
        two.rollback()
        assert self.seen(calls[11]).task_id == "B"


def test_calls_full_of_quotes_are_no_more_than_the_server_takes_at_once(post: Post) -> None:
    calls = ({"args": [number, '"' * 100_000]} for number in range(60))
    with override_settings(IDEMPOTENT_TASKS={"DATABASE": ALIAS}):
        assert len(post.task().submit_many(calls)) == 60
    assert IdempotencyKey.objects.using(ALIAS).count() == 60
