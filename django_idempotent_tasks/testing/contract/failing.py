"""Promises about failed attempts: the end of a claim and the record of its failure are written together."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.db import transaction

from ...ledger.stores import LedgerStore
from ...ledger.stores.clock import shifted
from ...ledger.values import Claim, Failure
from ...models import FailedJob
from ...states import Category, Reason, State
from .bench import LEASE, MESSAGE, REPUBLISH, RETENTION, Bench, a_failure

#: Text that no database takes: a lone surrogate has no bytes.
UNSTORABLE = "\ud800"


class Struck(Exception):
    """A signal between two statements."""


class Failing(Bench):
    """The words of the promises about failed attempts."""

    def jobs(self, claim: Claim) -> list[FailedJob]:
        """The records of a key's failed attempts, in order."""
        return list(FailedJob.objects.using(self.alias).filter(digest=claim.digest).order_by("id"))

    def fail_into_retry(
        self, claim: Claim, failure: Failure | None, *, store: LedgerStore | None = None
    ) -> bool:
        """Whether the retry was accepted."""
        values: dict[str, Any] = {"message": None, "reason": Reason.RETRY_ASKED, "wait": 0}
        return (store or self.store()).retry(claim, **values, republish=REPUBLISH, failure=failure)

    def fail_as_dead(
        self, claim: Claim, failure: Failure | None = None, *, store: LedgerStore | None = None
    ) -> bool:
        """Whether the key of the dead owner was freed."""
        return (store or self.store()).free_dead(
            claim.digest, owner_prefix=claim.owner[:-1], republish=REPUBLISH, failure=failure
        )

    def fail_as_killed(self, claim: Claim, failure: Failure, *, store: LedgerStore | None = None) -> bool:
        """Whether the key of the owner that is being killed was failed."""
        return (store or self.store()).fail_dead(
            claim.digest,
            owner_prefix=claim.owner[:-1],
            reason=Reason.RETRIES_USED_UP,
            failure=failure,
            retention=RETENTION,
        )

    def fail_for_good(self, claim: Claim, failure: Failure, *, store: LedgerStore | None = None) -> bool:
        """Whether the failure was accepted."""
        return (store or self.store()).fail(
            claim,
            state=State.FAILED,
            reason=Reason.RETRIES_USED_UP,
            failure=failure,
            retention=RETENTION,
        )

    def ways(self) -> tuple[Callable[..., bool], ...]:
        """Each way in which an attempt fails."""
        return (self.fail_into_retry, self.fail_for_good, self.fail_as_dead, self.fail_as_killed)

    @contextmanager
    def striking(self) -> Iterator[None]:
        """Inside, the process is struck when the record is about to be written."""
        table = FailedJob._meta.db_table

        def strike(execute: Any, sql: str, parameters: Any, many: Any, context: Any) -> Any:
            if "INSERT" in sql and table in sql:
                raise Struck
            return execute(sql, parameters, many, context)

        with self.store().connection.execute_wrapper(strike):
            yield


class FailedAttempts(Failing):
    """``retry``, ``fail``, ``free_dead`` and ``fail_dead`` with the record of the failed attempt."""

    def test_the_record_of_a_failure_tells_whose_attempt_it_was_and_what_failed(self) -> None:
        claim = self.claimed(self.call("A", scope="tenant", key_text="order=7"))
        with shifted(LEASE + 1):
            claim = self.taken_over(self.call("B", of=claim.call))
            assert self.fail(claim, failure=a_failure(category=Category.FATAL)) is True
        job = self.jobs(claim)[-1]
        assert (job.token, job.attempt, job.state, job.category) == (2, 2, State.FAILED, Category.FATAL)
        assert (job.task, job.scope, job.key_text, job.task_id) == ("shop.charge", "tenant", "order=7", "B")
        given = a_failure()
        assert (job.error, job.description, job.traceback) == (
            given.error,
            given.description,
            given.traceback,
        )
        assert (job.signature, job.worker, job.message) == (given.signature, given.worker, None)

    def test_the_record_of_a_failure_has_the_time_of_its_statement(self) -> None:
        claim = self.claimed()
        with shifted(100):
            began = self.now(claim)
            self.fail(claim)
            assert began <= self.jobs(claim)[0].at <= self.now(claim)

    def test_each_way_to_fail_leaves_one_record_of_where_the_key_went(self) -> None:
        went = []
        for fail in self.ways():
            claim = self.claimed()
            assert fail(claim, a_failure()) is True
            (job,) = self.jobs(claim)
            assert (job.token, job.attempt) == (claim.token, 1)
            assert job.state == self.row(claim).state
            went.append(job.state)
        assert went == [State.RETRY, State.FAILED, State.RETRY, State.FAILED]

    def test_a_key_in_doubt_is_recorded_as_one_for_a_person(self) -> None:
        for fail in (self.fail_as_dead, self.fail_as_killed):
            claim = self.claimed()
            self.in_columns(claim, in_external=True)
            assert fail(claim, a_failure()) is True
            (job,) = self.jobs(claim)
            assert (job.state, job.category) == (State.REVIEW, Category.MANUAL_REVIEW)

    def test_what_ends_without_a_failure_leaves_no_record(self) -> None:
        for end in (
            self.retry,
            self.complete,
            lambda held: self.fail_into_retry(held, None),
            self.fail_as_dead,
        ):
            claim = self.claimed()
            assert end(claim) is True
            assert self.jobs(claim) == []

    def test_a_failure_that_is_refused_leaves_no_record(self) -> None:
        for fail in self.ways():
            claim = self.claimed()
            late = replace(claim, owner="w:2:b")
            with self.untouched(claim):
                assert fail(late, a_failure()) is False
            assert self.jobs(claim) == []

    def test_a_failure_and_its_record_are_one_transaction(self) -> None:
        for fail in self.ways():
            claim = self.claimed()
            with self.untouched(claim), self.striking(), suppress(Struck):
                fail(claim, a_failure())
            assert self.jobs(claim) == []

    def test_a_failure_and_its_record_belong_to_the_open_transaction(self) -> None:
        for fail in self.ways():
            claim = self.claimed()
            with self.untouched(claim):
                with suppress(Struck), transaction.atomic(using=self.alias):
                    assert fail(claim, a_failure()) is True
                    assert len(self.jobs(claim)) == 1
                    raise Struck
                assert self.jobs(claim) == []

    def test_a_death_that_a_row_tells_of_is_recorded_once(self) -> None:
        for failure in (None, a_failure()):
            claim = self.claimed()
            self.store().free_dead(
                claim.digest, owner_prefix=claim.owner, republish=REPUBLISH, failure=failure
            )
            seen = self.seen(claim.call)
            for _ in range(2):
                self.store().record_death(claim.digest, seen=seen)
            (job,) = self.jobs(claim)
            assert (job.token, job.attempt, job.state, job.task_id) == (claim.token, 1, State.RETRY, "A")

    def test_a_message_that_no_worker_knew_leaves_a_record(self) -> None:
        call = self.reserved()
        digest = call.identity.digest
        failed = self.store().fail_unknown(
            digest, task_id="A", sends=0, failure=a_failure("LookupError"), retention=RETENTION
        )
        assert failed is True
        (job,) = FailedJob.objects.using(self.alias).filter(digest=digest)
        assert (job.state, job.attempt, job.error) == (State.FAILED, 0, "LookupError")


class UnstorableRecords(Failing):
    """A record leaves out what a database cannot store; the end of the claim is always written."""

    def test_a_record_that_is_refused_is_replaced_by_a_shorter_one(self) -> None:
        for fail in self.ways():
            claim = self.claimed()
            assert fail(claim, a_failure(traceback=UNSTORABLE)) is True
            (job,) = self.jobs(claim)
            assert (job.error, job.traceback) == ("builtins.ValueError", "")
            assert job.state == self.row(claim).state != State.RUNNING

    def test_a_record_that_cannot_be_had_at_all_never_costs_the_state(self) -> None:
        for fail in self.ways():
            claim = self.claimed()
            assert fail(claim, a_failure(UNSTORABLE)) is True
            assert self.jobs(claim) == []
            assert self.row(claim).state != State.RUNNING

    def test_a_refused_record_costs_nothing_that_the_open_transaction_wrote_before(self) -> None:
        for fail in self.ways():
            before, claim = self.claimed(), self.claimed()
            with transaction.atomic(using=self.alias):
                assert self.complete(before) is True
                assert fail(claim, a_failure(UNSTORABLE)) is True
            assert self.seen(before.call).state is State.SUCCEEDED
            assert self.seen(claim.call).state is not State.RUNNING

    def test_a_refused_record_is_left_out_on_a_side_connection_too(self) -> None:
        for fail in self.ways():
            claims = [self.claimed(), self.claimed()]
            with self.second_store() as side:
                assert fail(claims[0], a_failure(traceback=UNSTORABLE), store=side) is True
                assert fail(claims[1], a_failure(UNSTORABLE), store=side) is True
            assert [len(self.jobs(claim)) for claim in claims] == [1, 0]
            assert State.RUNNING not in {self.seen(claim.call).state for claim in claims}

    def test_a_side_connection_keeps_all_or_nothing_of_what_it_does_together(self) -> None:
        claims = [self.claimed(), self.claimed()]
        with self.second_store() as side:
            with self.untouched(*claims), suppress(Struck), side.together():
                assert self.fail_for_good(claims[0], a_failure(), store=side) is True
                raise Struck
            with side.together():
                assert [self.fail_for_good(claim, a_failure(), store=side) for claim in claims] == [
                    True,
                    True,
                ]
        assert [len(self.jobs(claim)) for claim in claims] == [1, 1]


class PlainFailures(Failing):
    """Failures of plain tasks, and how long failures are kept."""

    def test_a_failure_without_a_key_is_kept_with_its_call(self) -> None:
        self._record_plain(message=MESSAGE)
        (job,) = FailedJob.objects.using(self.alias).filter(task="shop.plain")
        assert (job.digest, job.token, job.key_text, job.scope) == (None, None, None, None)
        assert (job.task_id, job.attempt, job.state, job.message) == ("P", 2, State.FAILED, MESSAGE)
        assert (job.error, job.category) == ("builtins.ValueError", Category.RETRYABLE)

    def test_failed_jobs_are_pruned_when_they_are_old_a_bite_at_a_time_and_the_oldest_first(self) -> None:
        for _ in range(3):
            self._record_plain()
        jobs = FailedJob.objects.using(self.alias)
        first = jobs.order_by("id").first()
        assert first is not None
        jobs.exclude(id=first.id).update(at=first.at + timedelta(seconds=10))
        with shifted(RETENTION - 10):
            assert self.store().prune_failed(keep=RETENTION, bite=9) == 0
        with shifted(RETENTION + LEASE + REPUBLISH):
            assert self.store().prune_failed(keep=RETENTION, bite=1) == 1
            assert not jobs.filter(id=first.id).exists()
            assert self.store().prune_failed(keep=RETENTION, bite=9) == 2

    def _record_plain(self, message: str | None = None) -> None:
        self.store().record_plain(
            "shop.plain", "P", attempt=2, state=State.FAILED, failure=a_failure(), message=message
        )
