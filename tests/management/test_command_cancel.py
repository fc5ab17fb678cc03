"""``idem keys cancel``: exactly the keys that were named, never a later call of theirs, honestly counted."""

from __future__ import annotations

import getpass
import logging
from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.stores.postgresql import PostgresStore
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.management.keys import cancel as module
from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import Reason, State
from tests.support.keys import Keys, both, facts, idem

pytestmark = pytest.mark.django_db(databases=["default", "sqlite"])

FREE_TO_LOCK = "SELECT 1 FROM django_idempotent_tasks_idempotencykey WHERE digest = %s FOR UPDATE SKIP LOCKED"
TASK = ("--task", "shop.charge")
WHY = ("--reason", "wrong price", "--yes")


def states(keys: Keys) -> Counter[str]:
    """How many keys are in which state."""
    found = IdempotencyKey.objects.using(keys.alias).values_list("state", flat=True)
    return Counter(State(state).name for state in found)


def one_of_each(keys: Keys) -> None:
    """A key in every live state, and one that is done."""
    keys.reserved()
    keys.claimed()
    assert keys.retry(keys.claimed())
    keys.completed()


@both
def test_without_yes_it_counts_by_state_and_changes_nothing(keys: Keys) -> None:
    one_of_each(keys)
    before = states(keys)
    code, seen = facts(keys, "keys", "cancel", *TASK)
    assert (code, seen["outcome"], seen["keys"]) == (0, "dry run", 3)
    assert seen["states"] == {"pending": 1, "retry": 1, "running": 1}
    assert states(keys) == before


@both
def test_all_live_keys_of_a_task_are_ended_and_no_finished_one(keys: Keys) -> None:
    one_of_each(keys)
    other = keys.claimed(Call(Identity(uuid4(), None, "8", None), "shop.other", "T", None))
    code, seen = facts(keys, "keys", "cancel", *TASK, *WHY)
    assert (code, seen["cancelled"]) == (0, 3)
    assert states(keys) == {"CANCELLED": 3, "SUCCEEDED": 1, "RUNNING": 1}
    assert keys.row(other).state == State.RUNNING
    assert facts(keys, "keys", "cancel", *TASK, *WHY)[1]["cancelled"] == 0


@both
@pytest.mark.parametrize("state", ["pending", "running", "retry"])
def test_a_state_leaves_the_other_states_alone(keys: Keys, state: str) -> None:
    one_of_each(keys)
    assert facts(keys, "keys", "cancel", *TASK, "--state", state, *WHY)[1]["cancelled"] == 1
    left = {"PENDING", "RUNNING", "RETRY", "SUCCEEDED"} - {state.upper()}
    assert states(keys) == dict.fromkeys([*left, "CANCELLED"], 1)


@both
def test_scope_and_age_narrow_it(keys: Keys) -> None:
    tenant, young, other = (keys.claimed(keys.call(scope=scope)) for scope in ("a", "a", "b"))
    for claim in (tenant, other):
        keys.in_columns(claim, created_at=keys.now(claim) - timedelta(hours=2))
    assert (
        facts(keys, "keys", "cancel", *TASK, "--scope", "a", "--older-than", "1h", *WHY)[1]["cancelled"] == 1
    )
    assert [keys.row(claim).state for claim in (tenant, young, other)] == [6, 2, 2]


@both
def test_more_keys_than_one_page_are_all_ended_also_when_they_are_due_at_one_moment(
    keys: Keys, monkeypatch: Any
) -> None:
    monkeypatch.setattr(module, "PAGE", 3)
    claims = [keys.claimed() for _ in range(10)]
    moment = keys.now(claims[0]) + timedelta(seconds=50)
    for claim in claims:
        keys.in_columns(claim, due_at=moment)
    assert facts(keys, "keys", "cancel", *TASK)[1]["keys"] == 10
    assert facts(keys, "keys", "cancel", *TASK, *WHY)[1]["cancelled"] == 10


@both
@pytest.mark.parametrize("state", ["pending", "retry"])
def test_what_began_after_it_was_found_is_left_to_run_where_only_waiting_keys_were_meant(
    keys: Keys, monkeypatch: Any, state: str
) -> None:
    call = keys.reserved()
    if state == "retry":
        assert keys.retry(keys.started(call))
    begin_when_found(monkeypatch, lambda: keys.started(call))
    code, seen = facts(keys, "keys", "cancel", *TASK, "--state", state, *WHY)
    assert (code, seen["cancelled"], seen["moved_on"]) == (0, 0, 1)
    assert keys.row(call).state == State.RUNNING


@both
def test_a_later_call_that_has_the_key_since_is_not_ended(keys: Keys, monkeypatch: Any) -> None:
    claim = keys.claimed()
    later = keys.call("B", of=claim.call)

    def finish_and_claim_anew() -> None:
        keys.completed(claim, retention=0)
        keys.claimed_anew(later)

    begin_when_found(monkeypatch, finish_and_claim_anew)
    _, seen = facts(keys, "keys", "cancel", *TASK, *WHY)
    assert (seen["cancelled"], seen["ended"]) == (0, 1)
    row = keys.row(claim)
    assert (row.state, row.task_id) == (State.RUNNING, "B")


def begin_when_found(monkeypatch: Any, work: Any) -> None:
    """Let ``work`` happen between the look at a key and its cancel."""
    matching = module._matching

    def found(*arguments: Any) -> Any:
        for each in matching(*arguments):
            work()
            yield each

    monkeypatch.setattr(module, "_matching", found)


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])
def test_a_key_that_a_completion_holds_is_counted_as_locked_and_not_waited_for() -> None:
    keys = Keys("default")
    held, free = keys.claimed(), keys.claimed()
    with keys.second_store() as completing, completing.connection.cursor() as cursor:
        cursor.execute("BEGIN")
        assert completing.complete(held, result=None, reason=Reason.DONE, retention=9, window=9)
        code, seen = facts(keys, "keys", "cancel", *TASK, *WHY)
        cursor.execute("COMMIT")
    assert (code, seen["cancelled"], seen["locked"]) == (1, 1, 1)
    assert [keys.row(claim).state for claim in (held, free)] == [State.SUCCEEDED, State.CANCELLED]


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True, available_apps=["django_idempotent_tasks"])
def test_where_only_a_state_was_meant_nobody_can_move_the_key_on_between_look_and_cancel(
    monkeypatch: Any,
) -> None:
    keys = Keys("default")
    keys.reserved()
    cancel, lockable = PostgresStore.cancel, []

    def try_to_lock_then_cancel(store: PostgresStore, digest: UUID, **values: Any) -> bool:
        with keys.second_store() as other, other.connection.cursor() as cursor:
            cursor.execute(FREE_TO_LOCK, [digest])
            lockable.append(cursor.fetchone())
        return cancel(store, digest, **values)

    monkeypatch.setattr(PostgresStore, "cancel", try_to_lock_then_cancel)
    assert facts(keys, "keys", "cancel", *TASK, "--state", "pending", *WHY)[1]["cancelled"] == 1
    assert lockable == [None]


@both
def test_one_key_is_ended_by_its_digest(keys: Keys) -> None:
    claim, other = keys.claimed(), keys.claimed()
    with keys.untouched(claim, other):
        assert facts(keys, "keys", "cancel", claim.digest)[1] == {
            "outcome": "dry run",
            "keys": 1,
            "states": {"running": 1},
        }
    with keys.untouched(other):
        assert facts(keys, "keys", "cancel", claim.digest, *WHY)[1]["cancelled"] == 1
    assert keys.complete(claim) is False
    assert facts(keys, "keys", "cancel", claim.digest, *WHY)[0] == 1
    assert facts(keys, "keys", "cancel", uuid4(), *WHY)[0] == 1


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ([], "Give a digest, or --task"),
        (["--state", "running"], "Give a digest, or --task"),
        (["--older-than", "1d"], "Give a digest, or --task"),
        ([str(uuid4()), "--task", "shop.charge"], "not both"),
        (["--task", "shop.charge", "--state", "failed"], "Only pending, retry and running"),
    ],
)
def test_what_to_cancel_must_be_said_without_doubt(words: list[str], remedy: str) -> None:
    Keys("default").claimed()
    with pytest.raises(CommandError, match=remedy) as error:
        idem("keys", "cancel", *words, *WHY)
    assert error.value.returncode == 2
    assert states(Keys("default")) == {"RUNNING": 1}


@both
def test_who_cancelled_what_and_why_is_logged_on_one_line(
    keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    one, *_others = [keys.claimed() for _ in range(3)]
    with pytest.raises(CommandError, match="--reason must say why"):
        facts(keys, "keys", "cancel", one.digest, "--yes")
    with caplog.at_level(logging.WARNING, "django_idempotent_tasks"):
        for words in ([one.digest], TASK):
            facts(keys, "keys", "cancel", *words, "--reason", "wrong price\nforged line", "--yes")
    who = getpass.getuser()
    assert caplog.messages == [
        f"{who} cancelled shop.charge {one.digest}: wrong price\\nforged line",
        f"{who} cancelled 2 keys (task shop.charge): wrong price\\nforged line",
    ]


def test_the_text_says_that_bodies_are_not_stopped() -> None:
    claim = Keys("default").claimed()
    assert (
        "Bodies that run are not stopped, but the ledger refuses their completion."
        in idem("keys", "cancel", claim.digest)[1]
    )


@both
def test_what_follows_a_cancelled_key_is_cancelled_with_it(keys: Keys) -> None:
    claim = keys.claimed()
    assert keys.store().follow(keys.call("B", of=claim.call), wait=0)
    assert facts(keys, "keys", "cancel", claim.digest, "--yes", "--reason", "gone")[0] == 0
    assert keys.store().follow_up(claim.digest) is None
