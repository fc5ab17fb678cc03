"""Promises of ``count_hour`` and ``totals_since``: what became of the keys of an hour, and how long."""
# ruff: noqa: S101  promises are asserted

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import uuid4

from ...ledger.rules import SHADOW
from ...ledger.values import Call, Claim, TaskTotals
from ...models import BOUNDS, COUNTED, HourlyCount
from ...states import Category, Reason, State
from .bench import RETENTION, WINDOW, Bench, a_failure

HOUR = timedelta(hours=1)


class HourlyTotals(Bench):
    """Counts by task of the keys that were made in an hour."""

    def test_a_leased_run_is_counted_in_the_bucket_of_its_seconds(self) -> None:
        for seconds in (0.01, 0.02, 2.5, 1.5, 5000):
            self._ran(self.completed(), seconds)
        self._ran(self.failed(self.claimed()), 40)
        totals = self._totals()
        assert (totals.run.count, round(totals.run.seconds, 2), totals.run.longest) == (6, 5044.03, 5000)
        assert _filled(totals.run.buckets) == {0.01: 1, 0.03: 1, 3.0: 2, 100.0: 1, None: 1}
        assert (totals.created, totals.succeeded, totals.failed) == (6, 5, 1)

    def test_what_its_owner_did_not_end_has_no_run(self) -> None:
        self._ran(self.claimed(), 9)
        self._ran(self.cancelled(self.claimed()), 9)
        self._ran(self.in_state(State.SUCCEEDED, lease_seconds=0), 9)
        self._ran(self._resolved(), 9)
        for columns in ({"reason": Reason.OWNER_DIED}, {"reason": Reason.POISON}, {"sends": 5}):
            self._ran(self.in_state(State.FAILED, **columns), 9)
        assert self._totals().run.count == 0

    def test_a_wait_is_from_the_reservation_to_the_first_attempt(self) -> None:
        self._waited(self.completed(self.started(self.reserved())), 0.2)
        self._waited(self.completed(self._started_anew()), 7)
        totals = self._totals()
        assert (totals.wait.count, totals.wait.seconds, totals.wait.longest) == (2, 7.2, 7)
        assert _filled(totals.wait.buckets) == {0.3: 1, 10.0: 1}

    def test_what_a_failure_or_a_redrive_came_between_did_not_wait_for_a_worker(self) -> None:
        self.completed()
        self._waited(self.reserved(), None)
        self._waited(self.taken_over(self._retried().call), 9)
        self._waited(self.started(self._redriven()), 9)
        totals = self._totals()
        assert (totals.wait.count, totals.wait.seconds, totals.wait.longest) == (0, 0, 0)

    def test_calls_that_ran_in_shadow_mode_are_not_among_the_duplicates(self) -> None:
        claim = self.completed()
        for place in ("worker", SHADOW, SHADOW):
            call = replace(claim.call, task_id=uuid4().hex)
            self.store().record_duplicate(call, place=place, reason="already_completed")
        assert (self._totals().duplicates, self._totals().would_refuse) == (0, 0)
        self.store().sum_duplicates(bite=9)
        assert (self._totals().duplicates, self._totals().would_refuse) == (1, 2)

    def test_the_last_failure_of_an_hour_is_kept(self) -> None:
        moment = self.now(self.completed()).replace(microsecond=1000)
        assert self._totals().last_failure_at is None
        for minutes in (5, 1, 3):
            dead = self.failed(self.claimed())
            self.in_columns(dead, finished_at=moment + timedelta(minutes=minutes))
        assert self._totals().last_failure_at == moment + timedelta(minutes=5)

    def test_an_expected_end_is_no_failure(self) -> None:
        claim = self.claimed()
        self.store().fail(
            claim,
            state=State.FAILED,
            reason=Reason.EXPECTED,
            failure=a_failure(category=Category.EXPECTED),
            retention=RETENTION,
        )
        totals = self._totals()
        assert (totals.created, totals.succeeded, totals.failed) == (1, 1, 0)
        assert totals.last_failure_at is None

    def test_a_count_replaces_an_earlier_one_of_the_hour(self) -> None:
        claim = self.claimed()
        hour = self.now(claim) - HOUR
        for ended in (0, 1):
            self.store().count_hour(hour, hour + 2 * HOUR, marker=COUNTED)
            [row] = HourlyCount.objects.using(self.alias).filter(task="shop.charge")
            assert (row.run_count, row.succeeded) == (ended, ended)
            if not ended:
                self._ran(self.completed(claim), 2)

    def test_counts_that_are_read_now_are_bounded_and_of_the_newest_keys(self) -> None:
        for seconds in (3000, 20, 10):
            claim = self._ran(self.completed(), seconds)
            self.in_columns(claim, created_at=self.now(claim) - timedelta(seconds=seconds))
        now = self.now(claim)
        assert self.store().totals_since(now, most=9) == []
        found = [self.store().totals_since(now - HOUR, most=most)[0] for most in (9, 2)]
        assert [(totals.created, totals.run.longest) for totals in found] == [(3, 3000), (2, 20)]
        assert self.store().totals_since(now - timedelta(seconds=15), most=9)[0].created == 1

    def _totals(self) -> TaskTotals:
        """The hour as it is counted now, which is as it is read now."""
        key = self.call(str(uuid4()))
        moment = self.now(self.reserved(key))
        self.in_columns(key, created_at=moment - 3 * HOUR)
        hour = moment - HOUR
        self.store().count_hour(hour, moment + HOUR, marker=COUNTED)
        rows = HourlyCount.objects.using(self.alias)
        row = rows.get(task="shop.charge", hour__gte=hour - timedelta(seconds=1))
        [found] = self.store().totals_since(hour, most=99)
        for kind, times in (("run", found.run), ("wait", found.wait)):
            stored = [getattr(row, f"{kind}_{name}") for name in ("count", "max", "buckets")]
            assert stored == [times.count, times.longest, str([*times.buckets]).replace(" ", "")]
            assert round(getattr(row, f"{kind}_seconds") - times.seconds, 3) == 0
        assert (row.created, row.succeeded, row.failed) == (found.created, found.succeeded, found.failed)
        assert row.last_failure_at == found.last_failure_at
        rows.all().delete()
        return found

    def _ran(self, claim: Claim, seconds: float) -> Claim:
        began = _whole(self.now(claim))
        self.in_columns(claim, started_at=began, finished_at=began + timedelta(seconds=seconds))
        return claim

    def _waited(self, key: Call | Claim, seconds: float | None) -> None:
        began = None if seconds is None else _whole(self.row(key).created_at) + timedelta(seconds=seconds)
        self.in_columns(key, created_at=_whole(self.row(key).created_at), started_at=began)

    def _resolved(self) -> Claim:
        dead = self.failed(self.claimed())
        assert self.store().resolve(
            dead.digest, token=dead.token, result="1", reason=Reason.DONE, retention=RETENTION, window=WINDOW
        )
        return dead

    def _retried(self) -> Claim:
        claim = self.started(self.reserved())
        assert self.retry(claim)
        return claim

    def _redriven(self) -> Call:
        dead = self.started(self.reserved())
        self.store().fail(
            dead,
            state=State.FAILED,
            reason=Reason.RETRIES_USED_UP,
            failure=a_failure(),
            retention=RETENTION,
        )
        assert self.store().redrive(dead.digest, token=dead.token, message=dead.call.message or "")
        return dead.call

    def _started_anew(self) -> Claim:
        """A key whose first work is done, reserved for other work and claimed."""
        anew = self.call("B", of=self.completed(retention=0).call)
        assert self.try_reserve_anew(anew) is not None
        return self.started(anew)


def _whole(moment: datetime) -> datetime:
    """To a thousandth, as SQLite writes it."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _filled(buckets: tuple[int, ...]) -> dict[float | None, int]:
    """The buckets that have something, by their upper bounds."""
    return {bound: number for bound, number in zip((*BOUNDS, None), buckets, strict=True) if number}
