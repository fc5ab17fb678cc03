"""``idem dead-letters redrive``, ``discard`` and ``resolve`` of one: once, by whoever is first."""

from __future__ import annotations

import json
import logging
import math
from typing import Any

import pytest
from django.core.management import CommandError

from django_idempotent_tasks.ledger.encoding import decode_result
from django_idempotent_tasks.ledger.values import Claim
from django_idempotent_tasks.messages.message import Message
from django_idempotent_tasks.operations import dead_letters
from django_idempotent_tasks.signals import redriven
from django_idempotent_tasks.states import State
from example_project.payments.tasks import notify
from tests.management.graves import LEDGERS, WHY, dead, everywhere, states
from tests.support.keys import Keys, facts, idem

pytestmark = pytest.mark.django_db(databases=LEDGERS)

DECISIONS: list[tuple[list[str], State]] = [
    (["redrive"], State.PENDING),
    (["discard"], State.FAILED),
    (["resolve", "--rerun"], State.PENDING),
    (["resolve", "--done", '{"ref": "by hand"}'], State.SUCCEEDED),
    (["resolve", "--abandon"], State.FAILED),
]
by_decision = pytest.mark.parametrize(("words", "goal"), DECISIONS, ids=str)


def decide(keys: Keys, words: list[str], claim: Claim, *further: object) -> tuple[int, Any]:
    verb, *options = words
    return facts(keys, "dead-letters", verb, claim.digest, *options, *further)


@everywhere
@by_decision
@pytest.mark.parametrize("state", [State.FAILED, State.REVIEW])
def test_a_decision_is_a_dry_run_until_yes_and_then_done_with_a_reason_in_the_log(
    keys: Keys, words: list[str], goal: State, state: State, caplog: pytest.LogCaptureFixture
) -> None:
    claim = dead(keys, state=state)
    with keys.untouched(claim):
        assert decide(keys, words, claim)[1]["outcome"] == "dry run"
        with pytest.raises(CommandError, match="--reason must say why"):
            decide(keys, words, claim, "--yes")
    with caplog.at_level(logging.WARNING, "django_idempotent_tasks"):
        assert decide(keys, words, claim, *WHY)[0] == 0
    assert states(keys, claim) == [goal.name]
    assert any(str(claim.digest) in line and WHY[1] in line for line in caplog.messages)


@everywhere
def test_a_redrive_counts_attempts_from_0_and_is_announced(keys: Keys) -> None:
    claim = dead(keys)
    told: list[dict[str, Any]] = []

    def listen(**facts: Any) -> None:
        told.append(facts)

    redriven.connect(listen)
    try:
        assert decide(keys, ["redrive"], claim, *WHY)[0] == 0
    finally:
        redriven.disconnect(listen)
    row = keys.row(claim)
    assert (row.attempts, row.crashes, row.task_id) == (0, 0, "A")
    assert json.loads(str(row.message)) == {**json.loads(str(claim.call.message)), "stamped": True}
    if keys.alias == "default":  # elsewhere the tests' own transaction never commits
        assert [each["digest"] for each in told] in ([claim.digest], [])


@everywhere
@by_decision
def test_of_two_operators_the_second_is_told_what_became_of_it(
    keys: Keys, words: list[str], goal: State, monkeypatch: Any
) -> None:
    claim = dead(keys)
    overtake(monkeypatch, words, lambda: facts(keys, "dead-letters", "redrive", claim.digest, *WHY))
    code, seen = decide(keys, words, claim, *WHY)
    assert (code, seen["outcome"]) == (1, "moved on")
    assert "its key has moved on and is PENDING now (call A): look again" in seen["text"]
    assert states(keys, claim) == ["PENDING"]
    assert goal is not None


def overtake(monkeypatch: Any, words: list[str], first: Any) -> None:
    """Let another operator be first, once, between look and decision."""
    name = {"redrive": "redrive", "discard": "discard"}.get(words[0], "resolve")
    if words[0] == "resolve":
        name = {"--rerun": "redrive", "--abandon": "discard"}.get(words[1], "resolve")
    decision = getattr(dead_letters, name)
    calls: list[int] = []

    def late(*arguments: Any, **named: Any) -> Any:
        if not calls:
            calls.append(1)
            first()
        return decision(*arguments, **named)

    monkeypatch.setattr(dead_letters, name, late)


@everywhere
@by_decision
def test_what_a_later_call_has_is_left_to_it_and_named(keys: Keys, words: list[str], goal: State) -> None:
    claim = dead(keys)
    keys.claimed_anew(keys.call("B", of=claim.call))
    code, seen = decide(keys, words, claim, *WHY)
    assert (code, seen["outcome"], seen["state"], seen["holder"]) == (1, "not dead", "running", "B")
    assert goal is not None


@everywhere
def test_a_decision_on_a_failure_is_refused_once_the_work_has_failed_anew(keys: Keys) -> None:
    claim = dead(keys)
    seen = keys.row(claim)
    assert decide(keys, ["redrive"], claim, *WHY)[0] == 0
    assert keys.fail(keys.started(claim.call))
    for decision in (
        dead_letters.redrive(keys.store(), seen, by="me"),
        dead_letters.discard(keys.store(), seen, by="me"),
        dead_letters.resolve(keys.store(), seen, None, by="me"),
    ):
        assert not decision.done
        assert "has moved on and is FAILED now" in decision.problem


@everywhere
def test_a_result_by_hand_is_what_duplicates_get(keys: Keys) -> None:
    for given in ({"ref": "by hand"}, None, [1, "two"]):
        claim = dead(keys, state=State.REVIEW)
        assert decide(keys, ["resolve", "--done", json.dumps(given)], claim, *WHY)[0] == 0
        assert decode_result(keys.row(claim).result) == given
        assert facts(keys, "dead-letters", "list")[1]["total"] == 0


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["--done", "{"], "is not JSON"),
        (["--done", "NaN"], "NaN is no number in JSON"),
        (["--done", "1e999"], "1e999 is no number in JSON"),
        (["--done", '{"__type__": "uuid", "__value__": 7}'], "use other names for its keys"),
        (["--done", "[" * 100_000], "is not JSON"),
        ([], "Say one of"),
        (["--rerun", "--abandon"], "Say one of"),
        (["--done", '"' + "x" * 70_000 + '"'], "must be JSON of at most"),
    ],
)
def test_a_resolution_must_be_one_that_can_be_stored(words: list[str], remedy: str) -> None:
    keys = Keys("default")
    claim = dead(keys)
    with keys.untouched(claim), pytest.raises(CommandError, match=remedy) as error:
        idem("dead-letters", "resolve", claim.digest, *words, *WHY)
    assert error.value.returncode == 2


@everywhere
def test_a_redrive_may_have_other_arguments_and_keeps_the_rest_of_the_call(keys: Keys) -> None:
    message = Message.of("shop.charge", [7], {}, {"task_id": "A", "queue": "slow", "retries": 3})
    claim = dead(keys, message=message.encode(limit=10**6))
    words = ("--arguments", json.dumps({"kwargs": {"order_id": 7, "amount": "9.90"}}))
    assert decide(keys, ["redrive", *words], claim, *WHY)[0] == 0
    stored = Message.decode("shop.charge", keys.row(claim).message or "")
    assert (stored.args, stored.kwargs) == ([], {"order_id": 7, "amount": "9.90"})
    assert stored.options == {"task_id": "A", "queue": "slow"}


@everywhere
def test_a_dry_run_tells_whether_the_arguments_that_would_be_sent_fit(keys: Keys) -> None:
    old = '{"v": 1, "args": [], "kwargs": {"payment": 7}, "options": {}}'
    claim = dead(keys, task=notify.name, message=old)
    fits = {"tenant": "a", "payment_id": "p", "amount": "1", "currency": "EUR"}
    assert "do not fit the task" in decide(keys, ["redrive"], claim)[1]["text"]
    words = ["redrive", "--arguments", json.dumps({"kwargs": fits})]
    assert "do not fit" not in decide(keys, words, claim)[1]["text"]
    words = ["redrive", "--arguments", json.dumps({"args": [1, 2, 3, 4, 5]})]
    assert "do not fit the task" in decide(keys, words, claim)[1]["text"]
    gone = dead(keys, task="shop.gone")
    assert "no task of this name is known here" in decide(keys, ["redrive"], gone)[1]["text"]


@everywhere
def test_what_cannot_be_sent_is_refused_and_says_what_to_do(keys: Keys, settings: Any) -> None:
    claim = dead(keys, message=None)
    code, seen = decide(keys, ["redrive"], claim, *WHY)
    assert (code, seen["outcome"]) == (1, "not possible")
    assert "again where it came from, or resolve or discard" in seen["text"]
    settings.IDEMPOTENT_TASKS = {"MAX_PAYLOAD": 200}
    big = ["redrive", "--arguments", json.dumps({"args": ["x" * 300]})]
    assert "above MAX_PAYLOAD" in decide(keys, big, dead(keys), *WHY)[1]["text"]


@pytest.mark.parametrize("text", ['{"args": [1e999]}', '{"args": [{"__type__": [], "__value__": 1}]}'])
def test_arguments_that_no_worker_could_read_are_refused_where_they_are_given(text: str) -> None:
    keys = Keys("default")
    claim = dead(keys)
    row = keys.row(claim)
    with keys.untouched(claim):
        with pytest.raises(CommandError, match="is not JSON"):
            decide(keys, ["redrive", "--arguments", text], claim, *WHY)
        for given, words in (
            (math.nan, "NaN is no number in JSON"),
            ({"__type__": "none", "__value__": 1}, "cannot be read back"),
        ):
            refused = dead_letters.redrive(keys.store(), row, by="ann", edited=([given], {}))
            assert words in refused.problem
        with pytest.raises(ValueError, match="NaN is no number in JSON"):
            dead_letters.resolve(keys.store(), row, math.nan, by="ann")


@everywhere
def test_what_was_discarded_can_be_redriven_and_not_be_discarded_again(keys: Keys) -> None:
    claim = dead(keys)
    assert decide(keys, ["discard"], claim, *WHY)[0] == 0
    assert decide(keys, ["discard"], claim, *WHY) == (
        1,
        {"digest": str(claim.digest), "outcome": "discarded before"},
    )
    assert decide(keys, ["redrive"], claim, *WHY)[0] == 0
    assert states(keys, claim) == ["PENDING"]
