"""``idem dead-letters show`` and ``idem keys show``: why it failed, and what each decision would do."""

from __future__ import annotations

from typing import Any

import pytest
from celery import current_app

from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.operations import dead_letters, tasks
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.testing.contract.bench import a_failure
from example_project.payments.tasks import notify
from tests.management.graves import LEDGERS, WHY, dead, everywhere
from tests.support.keys import Keys, facts, idem

pytestmark = pytest.mark.django_db(databases=LEDGERS)

PAYMENT = '{"v": 1, "args": ["acme", "pay_1"], "kwargs": {"amount": "1", "currency": "EUR"}, "options": {}}'
OLD_PAYMENT = '{"v": 1, "args": [], "kwargs": {"payment": 4242}, "options": {}}'


@everywhere
def test_a_dead_letter_tells_its_error_and_the_history_of_its_attempts(keys: Keys) -> None:
    claim = keys.claimed()
    assert keys.store().retry(
        claim,
        message=None,
        reason=Reason.RETRY_ASKED,
        wait=0,
        republish=300,
        failure=a_failure(description="first"),
    )
    with shifted(5):
        claim = keys.taken_over(claim.call)
        assert keys.fail(claim, failure=a_failure(description="last", traceback="Traceback of the last"))
        code, seen = facts(keys, "dead-letters", "show", claim.digest)
        text = idem("dead-letters", "show", claim.digest, "--database", keys.alias)[1]
    assert (code, seen["error"], seen["signature"]) == (0, "builtins.ValueError: last", "0123456789abcdef")
    history = [(job["attempt"], job["state"], job["description"]) for job in seen["attempts_that_failed"]]
    assert history == [(2, "failed", "last"), (1, "retry", "first")]
    assert "failed attempts (the last 2):" in text
    assert "redrive: " in text


@everywhere
def test_arguments_and_traceback_are_shown_only_when_they_are_asked_for(keys: Keys) -> None:
    claim = dead(keys, message=OLD_PAYMENT, traceback="Traceback of it\n  File")
    words = ("dead-letters", "show", claim.digest, "--database", keys.alias)
    for form in ("text", "json"):
        hidden = idem(*words, "--format", form)[1]
        assert "4242" not in hidden
        assert "Traceback" not in hidden
        assert "4242" in idem(*words, "--payload", "--format", form)[1]
        assert "Traceback of it" in idem(*words, "--traceback", "--format", form)[1]


@everywhere
@pytest.mark.parametrize(
    ("task", "message", "words"),
    [
        (notify.name, PAYMENT, "Runs the call again: key"),
        (notify.name, OLD_PAYMENT, "likely to fail again: its arguments do not fit the task as it is now"),
        ("shop.gone", PAYMENT, "likely to fail again: no task of this name is known here"),
        (notify.name, None, "Not possible: the call's message is not stored"),
        (notify.name, "{", "Not possible: its stored message cannot be read"),
    ],
)
def test_what_stands_against_a_redrive_is_told_before(
    keys: Keys, task: str, message: str | None, words: str
) -> None:
    claim = dead(keys, task=task, message=message)
    code, seen = facts(keys, "dead-letters", "show", claim.digest)
    assert code == 0
    assert words in seen["decisions"]["redrive"]
    assert ("likely" in words) is ("likely" in seen["decisions"]["redrive"])


@everywhere
def test_what_is_no_dead_letter_says_what_it_is(keys: Keys) -> None:
    running = keys.claimed()
    code, seen = facts(keys, "dead-letters", "show", running.digest)
    assert (code, seen["outcome"], seen["state"], seen["holder"]) == (1, "not dead", "running", "A")
    assert facts(keys, "dead-letters", "show", "0" * 32) == (1, {"key": None})


@everywhere
def test_a_key_names_the_signature_and_the_command_that_redrives_it(keys: Keys) -> None:
    for state, way in ((State.FAILED, "redrive"), (State.REVIEW, "show")):
        claim = dead(keys, state=state)
        seen = facts(keys, "keys", "show", claim.digest)[1]
        assert (seen["signature"], seen["category"]) == ("0123456789abcdef", "retryable")
        assert f"'idem dead-letters {way} {claim.digest}" in seen["next"]


@everywhere
def test_a_key_that_was_discarded_says_so(keys: Keys) -> None:
    claim = dead(keys)
    assert facts(keys, "dead-letters", "discard", claim.digest, *WHY)[0] == 0
    seen = facts(keys, "keys", "show", claim.digest)[1]
    assert seen["discarded"] is not None
    assert "The dead letter was discarded: a new call may claim the key" in seen["next"]
    assert "discarded already" in facts(keys, "dead-letters", "show", claim.digest)[1]["decisions"]["discard"]


def test_a_task_that_only_workers_have_imported_yet_is_known(monkeypatch: Any) -> None:
    """A web process or a command may not have imported the project's tasks."""
    keys = Keys("default")
    claim = dead(keys)
    imported: list[str] = []
    monkeypatch.setattr(current_app.loader, "import_default_modules", lambda: imported.append("tasks"))
    tasks._import_tasks.cache_clear()
    for _ in range(2):
        dead_letters.known_problem(keys.row(claim))
    assert imported == ["tasks"]
