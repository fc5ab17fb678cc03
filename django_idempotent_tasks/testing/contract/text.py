"""Promises about text: what was stored comes back as it was, or is refused; it is never cut or changed."""
# ruff: noqa: S101, PLR2004  promises are asserted, in plain numbers

from __future__ import annotations

import json

from django.db import DatabaseError

from ...ledger.encoding import decode_error
from ...ledger.stores.clock import shifted
from .bench import LEASE, REPUBLISH, RETENTION, Bench, a_failure

WORDS = "Grüße, 東京, 🧾, e\u0301, \u202eright to left, tab\t, quote ' \" \\ %s %(x)s {now}"
HOSTILE = {"nul": "a\x00b", "lone": "\ud800", "pair": "\U0001f9fe", "words": WORDS, "empty": ""}


class Text(Bench):
    """JSON escapes carry what a database could not hold itself."""

    def test_a_result_comes_back_as_it_was_stored(self) -> None:
        for result in (json.dumps(HOSTILE), json.dumps(WORDS, ensure_ascii=False), '""', "null"):
            claim = self.completed(result=result)
            assert self.seen(claim.call).result == result

    def test_an_error_comes_back_as_it_was_stored(self) -> None:
        claim = self.claimed()
        self.fail(claim, failure=a_failure(description=json.dumps(HOSTILE)))
        assert decode_error(self.seen(claim.call).result) == f"builtins.ValueError: {json.dumps(HOSTILE)}"

    def test_the_answer_of_a_replaced_call_comes_back_as_it_was_stored(self) -> None:
        claim = self.completed(result=json.dumps(HOSTILE))
        with shifted(RETENTION + 1):
            self.claimed_anew(self.call("B", of=claim.call))
        answer = self.store().answer(claim.digest, task_id="A")
        assert answer is not None
        assert answer.result == json.dumps(HOSTILE)

    def test_a_message_of_a_megabyte_comes_back_from_a_sweep(self) -> None:
        message = json.dumps({"args": [WORDS * 20_000], **HOSTILE}, ensure_ascii=True)
        assert len(message) > 1_000_000
        claim = self.claimed(self.call(message=message))
        with shifted(LEASE + 1):
            (row,) = self.store().sweep(bite=1, republish=REPUBLISH)
        assert (row.digest, row.size) == (claim.digest, len(message))
        assert self.store().messages({row.digest: row.token}) == {claim.digest: message}

    def test_names_may_be_written_in_any_script(self) -> None:
        call = self.call(WORDS, scope=WORDS, key_text=WORDS)
        claim = self.claimed(call)
        row = self.row(claim)
        assert (row.task_id, row.scope, row.key_text) == (WORDS, WORDS, WORDS)
        assert self.seen(call).task_id == WORDS

    def test_no_scope_and_an_empty_scope_are_kept_apart(self) -> None:
        without, empty = self.claimed(self.call(scope=None)), self.claimed(self.call(scope=""))
        assert (self.row(without).scope, self.row(empty).scope) == (None, "")

    def test_task_ids_that_differ_in_case_or_spaces_are_different_calls(self) -> None:
        claim = self.completed(self.claimed(self.call("a")), retention=0)
        for task_id in ("A", "a ", " a"):
            claim = self.completed(self.claimed_anew(self.call(task_id, of=claim.call)), retention=0)
        assert self.seen(claim.call).generation == len(("a", "A", "a ", " a"))

    def test_a_name_that_does_not_fit_is_kept_whole_or_refused_and_never_cut(self) -> None:
        long = "x" * 300
        for call in (self.call(key_text=long), self.call(scope=long)):
            try:
                self.claimed(call)
            except DatabaseError:
                assert self.columns(call) is None
            else:
                assert long in (self.row(call).key_text, self.row(call).scope)
