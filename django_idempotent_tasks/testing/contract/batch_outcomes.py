"""Promises about the outcomes of records: only who holds a chunk writes them, and how each failed is kept."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.db import DatabaseError, transaction
from django.utils import timezone

from ...ledger.stores.clock import shifted
from ...ledger.values import Claim
from ...models import ChunkState
from ...states import Category, State
from .batch_bench import BatchBench, a_record
from .bench import LEASE, new_owner
from .text import HOSTILE


class KeptOutcomes(BatchBench):
    """What became of the records of a chunk is written by whoever holds it: the latest owner of its key."""

    def test_the_owner_holds_its_chunk_and_nobody_else_does(self) -> None:
        batch, calls = self.sealed(2)
        claim = self.holding_chunk(calls[0])
        assert self.store().keep_outcomes(claim, outcomes="of.") is True
        late = replace(claim, grant=replace(claim.grant, token=claim.token + 1))
        found = self.store().hold_chunk(claim)
        assert found is not None
        assert (found.batch, found.place, found.digest) == (batch, 0, claim.digest)
        assert (found.outcomes, found.state) == ("of.", ChunkState.OPEN)
        for stranger in (late, replace(claim, owner="w:2:b"), replace(claim, call=calls[1])):
            assert self.store().hold_chunk(stranger) is None
        assert self.store().hold_chunk(self.claimed()) is None
        self.completed(claim)
        assert self.store().hold_chunk(claim) is None

    def test_outcomes_are_kept_and_change_nothing_of_the_key(self) -> None:
        batch, calls = self.sealed(2)
        claim = self.started(calls[0])
        with self.untouched(claim):
            assert self.store().hold_chunk(claim) is not None
            assert self.store().keep_outcomes(claim, outcomes="of.") is True
        assert self.outcomes(batch) == ["of.", "..."]
        assert self.follow(*calls) == set()

    def test_who_has_not_held_the_chunk_writes_no_outcome(self) -> None:
        batch, calls = self.sealed()
        assert self.store().keep_outcomes(self.started(calls[0]), outcomes="ooo") is False
        assert self.store().keep_outcomes(self.claimed(), outcomes="o") is False
        assert self.outcomes(batch) == ["..."]

    def test_a_text_that_is_no_outcome_is_refused(self) -> None:
        batch, calls = self.sealed()
        claim = self.holding_chunk(calls[0])
        with suppress(ValueError):
            self.store().keep_outcomes(claim, outcomes="o'.")
            raise AssertionError("it was written")
        assert self.outcomes(batch) == ["..."]

    def test_an_owner_that_was_taken_over_writes_no_outcome_once_the_taker_holds_the_chunk(self) -> None:
        batch, calls = self.sealed()
        claim = self.holding_chunk(calls[0])
        with shifted(LEASE + 1):
            taker = self.taken_over(claim.call)
            assert self.store().hold_chunk(claim) is None
            assert self.store().keep_outcomes(claim, outcomes="o..") is True
            found = self.store().hold_chunk(taker)
            assert found is not None
            assert found.outcomes == "o.."
            assert self.store().keep_outcomes(claim, outcomes="ooo") is False
            assert self.store().keep_outcomes(taker, outcomes="of.") is True
        assert self.outcomes(batch) == ["of."]

    def test_outcomes_that_have_changed_since_they_were_seen_are_not_overwritten(self) -> None:
        batch, calls = self.sealed()
        claim = self.holding_chunk(calls[0])
        assert self.store().keep_outcomes(claim, outcomes="o..", seen="...") is True
        assert self.store().keep_outcomes(claim, outcomes="oo.", seen="...") is False
        assert self.store().keep_outcomes(claim, outcomes="of.", seen="o..") is True
        assert self.outcomes(batch) == ["of."]

    def test_a_redriven_chunk_is_written_to_before_it_has_followed(self) -> None:
        batch, calls = self.sealed()
        claim = self.failed_chunk(calls[0])
        assert self.store().redrive(claim.digest, token=claim.token, message='{"v": 1}')
        again = self.holding_chunk(calls[0])
        assert self.store().keep_outcomes(again, outcomes="ooo") is True
        assert self.outcomes(batch) == ["ooo"]

    def test_a_chunk_that_has_ended_gets_no_further_outcome(self) -> None:
        ends: dict[str, dict[str, Any]] = {
            "o..": {"state": State.CANCELLED},
            "ooo": {"state": State.SUCCEEDED},
            "of.": {"state": State.FAILED, "discarded_at": timezone.now()},
        }
        batch, calls = self.sealed(len(ends))
        for call, (outcomes, columns) in zip(calls, ends.items(), strict=True):
            claim = self.holding_chunk(call)
            assert self.store().keep_outcomes(claim, outcomes=outcomes) is True
            self.in_columns(claim, **columns)
            self.follow(call)
            assert self.store().keep_outcomes(claim, outcomes="oo.") is False
            assert self.store().hold_chunk(claim) is None
        assert self.outcomes(batch) == [*ends]

    def test_what_is_rolled_back_has_no_outcome(self) -> None:
        batch, calls = self.sealed()
        claim = self.holding_chunk(calls[0])
        with suppress(ZeroDivisionError), transaction.atomic(using=self.alias):
            assert self.store().keep_outcomes(claim, outcomes="ooo") is True
            raise ZeroDivisionError
        assert self.outcomes(batch) == ["..."]

    def test_who_takes_over_reads_no_outcomes_before_those_that_are_not_committed_yet(self) -> None:
        batch, calls = self.sealed()
        claim = self.holding_chunk(calls[0])
        with self.open_transaction():
            assert self.store().keep_outcomes(claim, outcomes="o..") is True
            with shifted(LEASE + 1):
                taker = self._taken_over_elsewhere(claim)
            with self.second_store() as second, suppress(DatabaseError):
                second.hold_chunk(taker)
                raise AssertionError("it did not wait")
        found = self.store().hold_chunk(taker)
        assert found is not None
        assert found.outcomes == "o.."
        assert self.outcomes(batch) == ["o.."]

    def test_nobody_waits_for_the_records_of_another_chunk(self) -> None:
        batch, calls = self.sealed(3)
        one, two = self.holding_chunk(calls[0]), self.started(calls[1])
        self.completed(self.started(calls[2]))
        with self.open_transaction():
            assert self.store().keep_outcomes(one, outcomes="o..") is True
            assert self.without_waiting(lambda side: side.hold_chunk(two)) is not None
            assert self.without_waiting(lambda side: side.keep_outcomes(two, outcomes="of.")) is True
            digests = [calls[2].identity.digest]
            assert self.without_waiting(lambda side: side.follow_chunks(digests)) == {batch}
            assert self.without_waiting(lambda side: side.needs_settling(batch)) is False
        assert self.outcomes(batch) == ["o..", "of.", "ooo"]

    def test_nobody_takes_a_key_over_while_its_chunk_is_being_held(self) -> None:
        _, calls = self.sealed()
        claim = self.started(calls[0])
        seen, grant = self.seen(claim.call), None
        with self.open_transaction():
            assert self.store().hold_chunk(claim) is not None
            with shifted(LEASE + 1), self.second_store() as second, suppress(DatabaseError):
                grant = second.claim_open(claim.call, owner=new_owner(), lease=LEASE, seen=seen)
            assert grant is None

    def test_outcomes_of_a_claim_are_written_to_its_chunk_only(self) -> None:
        batch, calls = self.sealed(3)
        claims = [self.holding_chunk(call) for call in calls]
        assert self.store().keep_outcomes(claims[1], outcomes="ofm") is True
        assert self.outcomes(batch) == ["...", "ofm", "..."]

    def _taken_over_elsewhere(self, claim: Claim) -> Claim:
        owner = new_owner()
        with self.second_store() as second:
            seen = second.read(claim.digest, task_id=claim.call.task_id)
            assert seen is not None
            grant = second.claim_open(claim.call, owner=owner, lease=LEASE, seen=seen)
        return self.granted(claim.call, owner, grant, LEASE)

    def test_a_failed_record_is_kept_once_with_its_latest_failure(self) -> None:
        batch, other = self.batch(), self.batch()
        store = self.store()
        store.keep_record(batch, a_record(7, Category.RETRYABLE, value=None))
        later = replace(a_record(7, attempt=3), error="shop.SoldOut", description="none", place=2)
        store.keep_record(batch, replace(later, signature="f" * 16))
        store.keep_record(batch, a_record(8))
        store.keep_record(other, a_record(7))
        first, second = self.records_of(batch)
        assert (first.index, first.place, first.category, first.attempt) == (7, 2, Category.FATAL, 3)
        assert (first.error, first.description, first.value) == ("shop.SoldOut", "none", '{"n": 1}')
        assert first.signature == "f" * 16
        assert second.index == 8
        store.drop_record(batch, 7)
        store.drop_record(batch, 9)
        assert [record.index for record in self.records_of(batch)] == [8]
        assert len(self.records_of(other)) == 1

    def test_a_failed_record_is_kept_as_it_is(self) -> None:
        batch = self.batch()
        texts = (json.dumps(HOSTILE), "東🧾" * 30, "", "%s {key} '\\", '"' + "x" * 70_000 + '"')
        for index, text in enumerate(texts):
            self.store().keep_record(batch, replace(a_record(index, value=text), description=text))
        found = self.records_of(batch)
        assert [record.value for record in found] == [*texts]
        assert [record.description for record in found] == [*texts]

    def test_the_moment_of_a_failure_is_the_databases(self) -> None:
        batch, call = self.batch(), self.reserved(self.call(str(uuid4())))
        began = self.now(call)
        with shifted(500):
            self.store().keep_record(batch, a_record())
        (record,) = self.records_of(batch)
        assert timedelta(seconds=499) < record.at - began < timedelta(seconds=500 + LEASE)
