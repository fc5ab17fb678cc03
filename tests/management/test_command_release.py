"""``idem keys release``: the holder that was seen loses the key, nobody else does, and it is logged why."""

from __future__ import annotations

import getpass
import logging
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError

from django_idempotent_tasks.management.keys import release as module
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.support.keys import Keys, both, facts, idem

pytestmark = pytest.mark.django_db(databases=["default", "sqlite"])

WHY = ("--reason", "host 7 is on fire")


@both
def test_without_yes_nothing_changes_and_the_holder_is_named(keys: Keys) -> None:
    claim = keys.claimed()
    with keys.untouched(claim):
        code, text = idem("keys", "release", claim.digest, *WHY, "--database", keys.alias)
    assert code == 0
    assert "held by a process of an unknown worker (pid 1), since " in text
    assert "the ledger refuses its completion from now on" in text
    assert "Say --yes" in text


@both
def test_a_released_key_can_be_claimed_and_the_holders_completion_is_refused(keys: Keys) -> None:
    claim = keys.claimed()
    code, seen = facts(keys, "keys", "release", claim.digest, *WHY, "--yes")
    assert (code, seen["outcome"], seen["state"]) == (0, "released", "retry")
    assert keys.complete(claim) is False
    assert keys.taken_over(claim.call).token > claim.token


@both
def test_a_key_inside_external_goes_to_review_and_it_says_so(keys: Keys) -> None:
    claim = keys.claimed()
    keys.in_columns(claim, in_external=True)
    assert "moves to REVIEW" in idem("keys", "release", claim.digest, *WHY, "--database", keys.alias)[1]
    assert facts(keys, "keys", "release", claim.digest, *WHY, "--yes")[1]["state"] == "review"


@both
def test_who_released_it_and_why_is_logged_on_one_line(keys: Keys, caplog: pytest.LogCaptureFixture) -> None:
    claim = keys.claimed()
    with caplog.at_level(logging.WARNING, "django_idempotent_tasks"):
        facts(keys, "keys", "release", claim.digest, "--reason", "fire\nforged line", "--yes")
    said = [record.getMessage() for record in caplog.records if str(claim.digest) in record.getMessage()]
    assert len(said) == 1
    assert said[0].startswith(getpass.getuser())
    assert said[0].endswith("fire\\nforged line")


@both
def test_a_key_that_moved_on_since_it_was_looked_at_is_left_alone(keys: Keys, monkeypatch: Any) -> None:
    claim = keys.claimed()

    def look_and_be_overtaken(_alias: str, digest: Any) -> IdempotencyKey:
        row = keys.row(digest)
        keys.in_columns(claim, token=row.token + 1)
        return row

    monkeypatch.setattr(module, "by_digest", look_and_be_overtaken)
    code, seen = facts(keys, "keys", "release", claim.digest, *WHY, "--yes")
    assert (code, seen["outcome"]) == (1, "moved on")
    row = keys.row(claim)
    assert (row.state, row.owner) == (State.RUNNING, claim.owner)


@both
def test_a_key_that_nobody_holds_or_that_is_not_there_ends_with_1(keys: Keys) -> None:
    done = keys.completed()
    with keys.untouched(done):
        assert facts(keys, "keys", "release", done.digest, *WHY, "--yes")[0] == 1
    assert facts(keys, "keys", "release", uuid4(), *WHY, "--yes")[0] == 1


def test_a_reason_must_be_given_and_say_something() -> None:
    claim = Keys("default").claimed()
    for words in ([], ["--reason", "  "]):
        with pytest.raises(CommandError, match="reason") as error:
            idem("keys", "release", claim.digest, "--yes", *words)
        assert error.value.returncode == 2
    assert Keys("default").row(claim).state == State.RUNNING
