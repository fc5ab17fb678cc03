"""Promises of ``progress``: the owner's report is kept beside the key, and its lease does not change."""
# ruff: noqa: S101  promises are asserted, in plain numbers

from __future__ import annotations

import json
from dataclasses import replace

from ...ledger.stores.clock import shifted
from ...states import FINISHED, State
from .bench import LEASE, Bench
from .text import HOSTILE

WORD = '{"done": 3, "total": 5, "note": "reading"}'


class Progress(Bench):
    """Progress reports of an owner."""

    def test_a_word_on_progress_changes_nothing_else(self) -> None:
        claim = self.claimed()
        before = self.columns(claim)
        with shifted(10):
            assert self.store().progress(claim, text=WORD) is True
        assert before is not None
        assert self.columns(claim) == before | {"progress": WORD}

    def test_only_the_owner_has_a_word(self) -> None:
        claim = self.claimed()
        late = replace(claim, grant=replace(claim.grant, token=claim.token + 1))
        with self.untouched(claim):
            assert self.store().progress(late, text=WORD) is False
            assert self.store().progress(replace(claim, owner="w:2:b"), text=WORD) is False
        for state in (State.PENDING, State.RETRY, *FINISHED):
            claim = self.in_state(state)
            with self.untouched(claim):
                assert self.store().progress(claim, text=WORD) is False

    def test_a_word_of_an_owner_whose_lease_is_over_extends_nothing(self) -> None:
        claim = self.claimed()
        with shifted(LEASE + 1):
            self.store().progress(claim, text=WORD)
            assert self.seen(claim.call).is_open is True

    def test_a_word_is_kept_as_it_was_written(self) -> None:
        claim = self.claimed()
        for text in (json.dumps(HOSTILE), json.dumps(WORD * 4, ensure_ascii=False), "x" * 400, "東🧾" * 200):
            assert self.store().progress(claim, text=text) is True
            assert self.row(claim).progress == text

    def test_a_settled_key_shows_the_last_word(self) -> None:
        for settle in (self.complete, self.retry, self.fail):
            claim = self.claimed()
            self.store().progress(claim, text=WORD)
            assert settle(claim) is True
            assert self.row(claim).progress == WORD

    def test_a_new_attempt_begins_without_a_word(self) -> None:
        silent, waiting = self.claimed(), self.claimed()
        call = self.reserved()
        retried = self.started(call)
        for claim in (silent, waiting, retried):
            self.store().progress(claim, text=WORD)
        self.retry(waiting)
        self.retry(retried)
        with shifted(LEASE + 1):
            for claim in (self.taken_over(silent.call), self.taken_over(waiting.call), self.started(call)):
                assert self.row(claim).progress is None

    def test_a_dead_letter_that_is_sent_again_has_no_word(self) -> None:
        claim = self.claimed()
        self.store().progress(claim, text=WORD)
        self.failed(claim)
        assert self.store().redrive(claim.digest, token=claim.token, message="{}") is True
        assert self.row(claim).progress is None
