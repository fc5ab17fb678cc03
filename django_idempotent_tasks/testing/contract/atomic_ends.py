"""Promises of ``atomic_result``, ``take_back`` and ``transaction_problem``: how an atomic run ends."""
# ruff: noqa: S101  promises are asserted

from __future__ import annotations

import json
from contextlib import suppress

from django.db import DatabaseError, transaction

from ...ledger.stores.session import Session
from ...ledger.values import Claim
from ...states import Reason, State
from .atomic_bench import AtomicBench, Undone
from .bench import LEASE
from .text import HOSTILE


class AtomicResults(AtomicBench):
    """The result of the body is stored in the transaction that claimed the key."""

    def test_a_result_is_stored_with_its_reason_and_changes_nothing_else(self) -> None:
        call = self.call()
        with self.atomically():
            claim = self.granted(call, "w:1:atomic", self.try_atomic(call), 0)
            before = self.columns(call) or {}
            assert self.store().atomic_result(claim, result="[5]", reason=Reason.IGNORED) is True
        assert self.columns(call) == {**before, "result": "[5]", "reason": Reason.IGNORED}

    def test_a_result_comes_back_from_an_atomic_run_as_it_was_stored(self) -> None:
        for result in (json.dumps(HOSTILE), '""', "null"):
            assert self.seen(self.run(result=result).call).result == result

    def test_a_result_is_gone_with_its_transaction(self) -> None:
        call = self.reserved()
        with self.untouched(call), self.undone():
            claim = self.granted(call, "w:1:atomic", self.try_atomic_reserved(call), 0)
            self.store().atomic_result(claim, result="[5]", reason=Reason.DONE)

    def test_that_the_owner_before_died_is_known_until_the_result_is_stored(self) -> None:
        for try_claim in (self.try_atomic_reserved, self.try_atomic_open):
            call = self.died().call
            with self.atomically():
                claim = self.granted(call, "w:1:atomic", try_claim(call), 0)
                assert self.seen(call).reason is Reason.OWNER_DIED
                self.store().atomic_result(claim, result=None, reason=Reason.DONE)
            assert self.seen(call).reason is Reason.DONE

    def test_only_the_claim_that_it_names_gets_a_result(self) -> None:
        first = self.run(retention=0)
        call = self.call("B", of=first.call)
        with self.atomically():
            grant = self.try_atomic_anew(call, owner="w:1:second")
            second = self.granted(call, "w:1:second", grant, 0)
        late, other = Claim(call, second.owner, first.grant, 0), Claim(call, "w:9:other", second.grant, 0)
        for claim in (first, late, other, self.claimed()):
            with self.untouched(claim, second), self.atomically():
                assert self.store().atomic_result(claim, result="[5]", reason=Reason.IGNORED) is False

    def test_a_claim_that_was_rolled_back_gets_no_result(self) -> None:
        call = self.call()
        with self.atomically():
            with self.undone():
                claim = self.granted(call, "w:1:atomic", self.try_atomic(call), 0)
            assert self.store().atomic_result(claim, result="[5]", reason=Reason.IGNORED) is False
        assert self.columns(call) is None


class TakenBack(AtomicBench):
    """The owner may take back a success that the body itself committed before its end."""

    def test_a_committed_run_is_taken_back_by_its_own_claim_and_may_be_settled(self) -> None:
        claim = self.run()
        mine = Claim(claim.call, claim.owner, claim.grant, LEASE)
        with self.sets(claim, open_at=LEASE, due_at=LEASE):
            assert self.store().take_back(mine) is True
        row = self.row(claim)
        assert (row.state, row.token, row.owner) == (State.RUNNING, claim.token, claim.owner)
        assert (row.lease_seconds, row.finished_at) == (LEASE, None)
        assert self.retry(mine)

    def test_a_success_is_taken_back_by_nobody_else(self) -> None:
        first = self.run(retention=0)
        call = self.call("B", of=first.call)
        with self.atomically():
            grant = self.try_atomic_anew(call, owner="w:1:second")
        second = self.granted(call, "w:1:second", grant, 0)
        late, other = Claim(call, second.owner, first.grant, 0), Claim(call, "w:9:other", second.grant, 0)
        for claim in (first, late, other):
            with self.untouched(second):
                assert self.store().take_back(claim) is False

    def test_only_a_success_is_taken_back(self) -> None:
        for state in set(State) - {State.SUCCEEDED}:
            claim = self.in_state(state)
            with self.untouched(claim):
                assert self.store().take_back(claim) is False


class Transactions(AtomicBench):
    """Whether a commit of the open transaction would keep what was written in it."""

    def test_a_transaction_in_order_has_no_problem(self) -> None:
        with self.atomically():
            self.try_atomic(self.call())
            assert self.store().transaction_problem() is None

    def test_a_failure_inside_a_savepoint_of_its_own_is_no_problem(self) -> None:
        call = self.call()
        with self.atomically():
            self.try_atomic(call)
            with self.undone():
                self._failing_statement()
            assert self.store().transaction_problem() is None
        assert self.seen(call).state is State.SUCCEEDED

    def test_a_statement_that_failed_and_was_passed_over_is_a_problem_where_it_undoes_the_rest(self) -> None:
        call = self.call()
        with self.atomically():
            self.try_atomic(call)
            self._failing_statement()
            problem = self.store().transaction_problem()
        assert (problem is None) is (self.columns(call) is not None)

    def test_a_transaction_that_was_marked_for_rollback_is_a_problem(self) -> None:
        call = self.call()
        with self.atomically():
            self.try_atomic(call)
            transaction.set_rollback(True, using=self.alias)
            assert self.store().transaction_problem() is not None
            assert self.store().has_ended() is False
        assert self.columns(call) is None

    def test_an_error_that_was_caught_inside_the_block_that_it_marked_is_a_problem(self) -> None:
        call = self.call()
        with self.atomically():
            self.try_atomic(call)
            with suppress(Undone), transaction.atomic(using=self.alias, savepoint=False):
                raise Undone
            assert self.store().transaction_problem() is not None
        assert self.columns(call) is None

    def test_a_transaction_that_its_body_ended_is_a_problem(self) -> None:
        for end in ("COMMIT", "ROLLBACK"):
            with self.undone_somehow():
                self.try_atomic(self.call())
                assert self.store().has_ended() is False
                self._sql(end)
                assert self.store().transaction_problem() is not None
                assert self.store().has_ended() is True

    def test_a_connection_that_its_body_closed_is_a_problem(self) -> None:
        with self.undone_somehow():
            self.try_atomic(self.call())
            self.store().connection.close()
            assert self.store().transaction_problem() is not None
            assert self.store().has_ended() is True

    def test_what_a_problem_is_is_said_in_words_and_each_has_its_own(self) -> None:
        with self.undone_somehow():
            self.try_atomic(self.call())
            transaction.set_rollback(True, using=self.alias)
            marked = self.store().transaction_problem()
        with self.undone_somehow():
            self._sql("ROLLBACK")
            ended = self.store().transaction_problem()
        assert marked
        assert ended
        assert marked != ended

    def test_the_driver_says_whether_the_next_statement_is_committed_by_itself(self) -> None:
        assert self.store().session() is Session.IDLE
        with self.atomically():
            self.try_atomic(self.call())
            assert self.store().session() is Session.OPEN
        assert self.store().session() is Session.IDLE

    def test_a_transaction_that_was_begun_by_hand_is_seen_whatever_django_believes(self) -> None:
        self._sql("BEGIN")
        self._sql("SELECT 1")
        assert self.store().session() is Session.OPEN
        self._sql("ROLLBACK")
        assert self.store().session() is Session.IDLE

    def test_that_nothing_is_committed_by_itself_is_seen_without_a_round_trip(self) -> None:
        connection = self.store().connection
        connection.set_autocommit(False)
        try:
            assert self.store().session(at_any_cost=False) is Session.UNREADY
            assert self.store().session() is Session.UNREADY
        finally:
            connection.set_autocommit(True)
        assert self.store().session() is Session.IDLE

    def test_where_no_connection_is_open_nothing_is_left_open(self) -> None:
        connection = self.store().connection
        self._sql("BEGIN")
        connection.close()
        assert self.store().session() is Session.IDLE

    def _failing_statement(self) -> None:
        try:
            self._sql("SELECT * FROM there_is_no_such_table")
        except DatabaseError:
            pass
        else:  # pragma: no cover
            raise AssertionError("the statement did not fail")

    def _sql(self, statement: str) -> None:
        with self.store().connection.cursor() as cursor:
            cursor.execute(statement)
