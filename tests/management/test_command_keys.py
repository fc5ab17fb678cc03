"""``idem keys list`` and ``show``: the right keys, newest first, in bounds; payload only when asked for."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError
from django.db import connection

from django_idempotent_tasks.identity.key import Identity, stated_digest
from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.ledger.values import Call, Claim
from django_idempotent_tasks.operations import search
from django_idempotent_tasks.states import Reason, State
from django_idempotent_tasks.testing.contract.bench import a_failure
from tests.support.fleet import held, worker
from tests.support.keys import Keys, both, facts, idem
from tests.support.ledger.crowd import fill
from tests.support.ledger.statements import postgresql_plan

pytestmark = pytest.mark.django_db(databases=["default", "sqlite"])

SPREAD = """
UPDATE django_idempotent_tasks_idempotencykey
   SET created_at = created_at + make_interval(secs => key_text::int)
"""
SECRET = '{"v": 1, "args": ["4242"], "kwargs": {}, "options": {}}'


def aged(
    keys: Keys, seconds: int, *, task: str = "shop.charge", scope: str | None = None, text: str = "7"
) -> Claim:
    """A running key that was claimed so long ago."""
    claim = keys.claimed(Call(Identity(uuid4(), scope, text, None), task, str(uuid4()), SECRET))
    keys.in_columns(claim, created_at=keys.now(claim) - timedelta(seconds=seconds))
    return claim


def listed(keys: Keys, *words: object) -> list[str]:
    """The digests that a list shows."""
    code, seen = facts(keys, "keys", "list", *words)
    assert code == 0
    return [key["digest"] for key in seen["keys"]]


def digests(*claims: Claim) -> list[str]:
    """Those of claims, as JSON has them."""
    return [str(claim.digest) for claim in claims]


@both
def test_a_list_is_newest_first_and_says_when_there_are_more(keys: Keys) -> None:
    old, new, middle = (aged(keys, seconds) for seconds in (300, 100, 200))
    assert listed(keys) == digests(new, middle, old)
    assert listed(keys, "--limit", 2) == digests(new, middle)
    assert facts(keys, "keys", "list", "--limit", 2)[1]["more"] is True
    assert facts(keys, "keys", "list", "--limit", 3)[1]["more"] is False


@both
def test_each_filter_leaves_only_what_it_names(keys: Keys) -> None:
    plain = aged(keys, 10)
    other_task = aged(keys, 20, task="shop.refund")
    tenant = aged(keys, 30, scope="tenant-42")
    empty_scope = aged(keys, 40, scope="")
    done = keys.completed(aged(keys, 5000))
    assert listed(keys, "--task", "shop.refund") == digests(other_task)
    assert listed(keys, "--scope", "tenant-42") == digests(tenant)
    assert listed(keys, "--scope", "") == digests(empty_scope)
    assert listed(keys, "--state", "succeeded") == digests(done)
    assert listed(keys, "--older-than", "1h") == digests(done)
    assert listed(keys, "--older-than", "15s", "--state", "running", "--task", "shop.charge") == digests(
        tenant, empty_scope
    )
    assert plain.digest != done.digest


@both
def test_a_filter_looks_at_the_newest_keys_of_the_age_that_was_asked_for_and_says_so(
    keys: Keys, monkeypatch: Any
) -> None:
    monkeypatch.setattr(search, "WINDOW", 2)
    claims = [aged(keys, seconds) for seconds in (100, 200, 300, 400)]
    assert listed(keys) == digests(*claims)
    assert listed(keys, "--task", "shop.charge") == digests(*claims[:2])
    assert facts(keys, "keys", "list", "--task", "shop.charge")[1]["looked_at_all"] is False
    assert listed(keys, "--task", "shop.charge", "--older-than", "150s") == digests(*claims[1:3])
    assert (
        facts(keys, "keys", "list", "--state", "running", "--older-than", "250s")[1]["looked_at_all"] is True
    )


@pytest.mark.postgresql
@pytest.mark.parametrize(
    "words", [(), ("--older-than", "1h"), ("--task", "shop.none"), ("--state", "pending", "--scope", "a")]
)
def test_lists_read_no_table_from_end_to_end(words: tuple[str, ...], monkeypatch: Any) -> None:
    fill("default")
    monkeypatch.setattr(search, "WINDOW", 200)
    with connection.cursor() as cursor:
        cursor.execute(SPREAD)
        cursor.execute("ANALYZE")
    plan = postgresql_plan(lambda _: idem("keys", "list", *words))
    large = [access for access in plan if not access.table.endswith("worker")]
    assert {access.node for access in large} <= {"Index Scan", "Index Only Scan", "Bitmap Heap Scan"}


@both
def test_a_key_is_found_by_the_number_that_the_call_was_given(keys: Keys) -> None:
    digest = stated_digest("shop.charge", idempotency_key=7, scope=None)
    claim = keys.claimed(Call(Identity(digest, None, "order_id=7", None), "shop.charge", "T", SECRET))
    code, seen = facts(keys, "keys", "show", "--task", "shop.charge", "--key", "7")
    assert (code, seen["digest"]) == (0, str(claim.digest))


@both
def test_a_key_is_found_by_digest_by_its_idempotency_key_and_by_the_text_that_lists_show(keys: Keys) -> None:
    digest = stated_digest("shop.charge", idempotency_key="evt_1", scope="tenant-42")
    stated = keys.claimed(Call(Identity(digest, "tenant-42", "other text", None), "shop.charge", "T", SECRET))
    shown = aged(keys, 10, text="order_id=7")
    for words, claim in (
        ([stated.digest], stated),
        (["--task", "shop.charge", "--key", "evt_1", "--scope", "tenant-42"], stated),
        (["--task", "shop.charge", "--key", "order_id=7"], shown),
    ):
        code, seen = facts(keys, "keys", "show", *words)
        assert (code, seen["digest"]) == (0, str(claim.digest))


@both
def test_a_key_that_is_not_there_ends_with_1(keys: Keys) -> None:
    aged(keys, 10, text="evt_1")
    assert facts(keys, "keys", "show", uuid4()) == (1, {"key": None})
    assert facts(keys, "keys", "show", "--task", "shop.refund", "--key", "evt_1")[0] == 1


@both
def test_a_text_that_means_several_keys_is_an_error_that_names_them(keys: Keys) -> None:
    claims = [aged(keys, 10, scope=scope, text="evt_1") for scope in ("a", "b")]
    with pytest.raises(CommandError) as error:
        idem("keys", "show", "--task", "shop.charge", "--key", "evt_1", "--database", keys.alias)
    assert error.value.returncode == 2
    assert all(digest in str(error.value) for digest in digests(*claims))
    words = ("--task", "shop.charge", "--key", "evt_1", "--scope", "b")
    assert facts(keys, "keys", "show", *words)[1]["digest"] == str(claims[1].digest)


@both
def test_a_running_key_shows_who_holds_it_and_for_how_long(keys: Keys) -> None:
    claim = held(keys, worker(keys), lease=60)
    with shifted(20):
        seen = facts(keys, "keys", "show", claim.digest)[1]
        text = idem("keys", "show", claim.digest, "--database", keys.alias)[1]
    assert (seen["holder_task_id"], seen["attempts"], seen["holder_is_alive"]) == ("A", 1, True)
    assert seen["holder"].startswith("mail@host, pid 4711, since ")
    assert 30 < seen["lease_left_seconds"] <= 40
    assert f"holder: {seen['holder']}" in text
    (listed,) = facts(keys, "keys", "list")[1]["keys"]
    assert listed["holder"] == seen["holder"]
    assert seen["holder"] in idem("keys", "list", "--database", keys.alias)[1]
    assert claim.owner not in text
    assert re.search(r"started: 2\d s ago", text)
    with shifted(70):
        assert "lease: over for 1" in idem("keys", "show", claim.digest, "--database", keys.alias)[1]


@both
def test_arguments_and_results_are_shown_only_with_payload(keys: Keys) -> None:
    waiting = keys.claimed(keys.call(message=SECRET))
    done = keys.completed(result='{"card": "4242"}')
    for claim in (waiting, done):
        for form in ("text", "json"):
            words = ("keys", "show", claim.digest, "--database", keys.alias, "--format", form)
            assert "4242" not in idem(*words)[1].replace(str(claim.digest), "")
            assert "4242" in idem(*words, "--payload")[1].replace(str(claim.digest), "")
    assert facts(keys, "keys", "show", done.digest, "--payload")[1]["result"] == {"card": "4242"}


@both
def test_the_error_of_a_failed_key_is_shown(keys: Keys) -> None:
    claim = keys.claimed()
    assert keys.fail(claim, failure=a_failure("shop.CardDeclined", "no funds"))
    assert facts(keys, "keys", "show", claim.digest)[1]["error"] == "shop.CardDeclined: no funds"


NEXT: list[tuple[dict[str, Any], int, str]] = [
    ({"state": State.PENDING, "due": 300, "sends": 0}, 0, "sends the message again in "),
    (
        {"state": State.PENDING, "due": -1, "sends": -1},
        0,
        "does not have the call's message; the sweeper sends it now",
    ),
    ({"state": State.RUNNING, "open": 60}, 0, "the key is free in "),
    ({"state": State.RUNNING, "open": 60}, 99, "frees the key and sends its call again"),
    ({"state": State.RUNNING, "open": 60, "in_external": True}, 99, "moves the key to REVIEW"),
    (
        {"state": State.RUNNING, "open": 60, "message": None},
        99,
        "the next copy or call that arrives takes the key over",
    ),
    ({"state": State.RETRY, "open": 90, "due": 300}, 0, "A worker may claim the key in 1 m"),
    ({"state": State.RETRY, "open": -9, "due": 300, "message": None}, 0, "none is stored"),
    ({"state": State.REVIEW}, 0, "waits for your decision"),
    (
        {"state": State.FAILED, "reason": Reason.RETRIES_USED_UP, "due": 9000},
        0,
        "A new call runs the key again",
    ),
    ({"state": State.FAILED, "reason": Reason.POISON, "due": 9000}, 0, "Calls of the key are refused"),
    ({"state": State.CANCELLED, "due": 9000}, 0, "a new call may claim the key"),
    ({"state": State.SUCCEEDED, "open": 7300, "due": 9000}, 0, "a new call runs the key again in 2 h"),
    ({"state": State.SUCCEEDED, "open": 7300, "due": 9000}, 8000, "Its retention is over"),
]


@pytest.mark.parametrize(("columns", "later", "words"), NEXT)
def test_what_happens_next_is_told_for_every_state(columns: dict[str, Any], later: int, words: str) -> None:
    keys = Keys("default")
    claim = keys.claimed()
    for name, column in (("due", "due_at"), ("open", "open_at")):
        seconds = columns.get(name)
        moment = None if seconds is None else keys.now(claim) + timedelta(seconds=seconds)
        columns = {key: value for key, value in columns.items() if key != name} | {column: moment}
    keys.in_columns(claim, **columns)
    with shifted(later):
        assert words in facts(keys, "keys", "show", claim.digest)[1]["next"]


@both
def test_how_far_a_body_is_is_told(keys: Keys) -> None:
    claim = aged(keys, 10)
    assert keys.store().progress(claim, text='{"done": 3, "total": 5, "note": "x\\u001b[2Jy"}')
    assert facts(keys, "keys", "show", claim.digest)[1]["progress"]["done"] == 3
    code, text = idem("keys", "show", claim.digest, "--database", keys.alias)
    assert "progress: 3 of 5 (60%): x\\x1b[2Jy" in text
    assert code == 0


@both
def test_the_steps_of_a_key_are_told_and_their_values_with_payload_only(keys: Keys) -> None:
    claim = keys.claimed()
    assert keys.store().keep_step(claim, "plan", value='{"note": "x\\u001b[2Jy"}', elapsed=2.5)
    assert keys.store().keep_step(claim, "ask", value=None, elapsed=0.0)
    plan, ask = facts(keys, "keys", "show", claim.digest)[1]["steps"]
    assert plan == {"name": "plan", "attempt": 1, "seconds": 2.5}
    assert (ask["name"], abs(ask["seconds"]) < 0.1) == ("ask", True)
    told = facts(keys, "keys", "show", claim.digest, "--payload")[1]["steps"]
    assert [step["value"] for step in told] == [{"note": "x\x1b[2Jy"}, None]
    text = idem("keys", "show", claim.digest, "--database", keys.alias)[1]
    assert ("plan: attempt 1, 2.5 s" in text, "note" in text) == (True, False)
    text = idem("keys", "show", claim.digest, "--payload", "--database", keys.alias)[1]
    assert '{"note": "x\\u001b[2Jy"}' in text


@both
def test_the_call_that_follows_is_shown_with_the_key(keys: Keys) -> None:
    claim = keys.claimed()
    assert facts(keys, "keys", "show", claim.digest)[1]["follow_up"] is None
    assert keys.store().follow(keys.call("B", of=claim.call), wait=0)
    assert facts(keys, "keys", "show", claim.digest)[1]["follow_up"]["task_id"] == "B"
    printed = idem("keys", "show", claim.digest, "--database", keys.alias)[1]
    assert "follow up: call B has waited for" in printed
