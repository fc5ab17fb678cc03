"""The checker of a chaos run finds what was lost, doubled or left waiting."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.utils import timezone

from benchmarks.chaos import checker
from benchmarks.chaos.models import Change, Charge, Effect, Seen, Sent
from benchmarks.chaos.plan import CHUNK, PERIOD, PERIODIC, RECORDS, Call, Kind, Plan, Setting, make_plan
from benchmarks.chaos.verdict import CHARGED, DONE, Verdict, judge, parts_of
from benchmarks.chaos.victims import held_by, not_taken
from django_idempotent_tasks.models import Batch, BatchState, FollowUp, IdempotencyKey
from django_idempotent_tasks.states import Reason, State

SETTING = Setting(calls=40, faults=90)
START = datetime(2026, 1, 1, tzinfo=UTC)
MODELS = (Effect, Charge, Change, Seen, Sent)


@pytest.mark.parametrize(
    ("now", "left"),
    [
        ({}, 1),
        ({"state": State.RETRY, "reason": Reason.OWNER_DIED, "token": 2, "owner": None}, 1),
        ({"token": 2, "owner": "other:8:x"}, 0),
        ({"state": State.SUCCEEDED}, 0),
        ({"state": State.RETRY, "reason": Reason.OWNER_DIED, "token": 2, "digest": uuid4()}, 0),
    ],
    ids=["held still", "free", "claimed by others", "ended", "another key is free"],
)
@pytest.mark.django_db
def test_a_key_of_a_host_counts_as_taken_over_once_others_have_claimed_it_or_it_has_ended(
    now: dict[str, object], left: int
) -> None:
    call = Call(1, Kind.COMPLETED, "held", 0, 0, 0)
    _key(call)
    keys = IdempotencyKey.objects.filter(key_text=_text(call))
    keys.update(state=State.RUNNING, owner="this:7:x")
    assert held_by({8}) == {}
    held = held_by({7})
    assert list(held.values()) == [1]
    keys.update(**now)
    assert not_taken(held) == left


@pytest.fixture
def plan(db: None) -> Plan:  # noqa: ARG001
    """A plan that was carried out as it should be: its tables have what that leaves."""
    if connection.vendor != "postgresql":
        pytest.skip("makes tables inside a transaction")
    with connection.schema_editor() as editor:
        for model in MODELS:
            editor.create_model(model)
    plan = make_plan(1, SETTING)
    for call in plan.calls:
        _do(call)
    for number in range(5):
        at = START + number * timedelta(seconds=PERIOD)
        for name in PERIODIC:
            Effect.objects.create(key=f"every {name}", part=at.isoformat(), token=1)
    return plan


def _do(call: Call) -> None:
    """Leave what a call leaves that is done once."""
    Sent.objects.create(name=call.name, key=call.key)
    for part in parts_of(call):
        Effect.objects.create(key=call.key, part=part, token=1)
    if call.kind in CHARGED:
        Charge.objects.create(key=call.key, downstream="a")
    if call.kind is Kind.FOLLOWED:
        Change.objects.create(key=call.key)
        Seen.objects.update_or_create(
            key=call.key, defaults={"changes": Change.objects.filter(key=call.key).count()}
        )
    if call.kind is Kind.BATCH:
        _batch(call.key)
    elif not IdempotencyKey.objects.filter(key_text=_text(call)).exists():
        _key(call)


def _text(call: Call) -> str:
    return call.key if call.kind is Kind.HTTP else f"key={call.key}"


def _key(call: Call) -> None:
    name = "submitted" if call.kind is Kind.HTTP else "completing"
    IdempotencyKey.objects.create(
        digest=uuid4(),
        created_at=timezone.now(),
        token=1,
        generation=1,
        lease_seconds=5,
        duplicates=0,
        state=State.FAILED if call.kind is Kind.REFUSED else State.SUCCEEDED,
        reason=0,
        attempts=1,
        crashes=0,
        sends=0,
        in_external=False,
        task=f"benchmarks.chaos.tasks.{name}",
        key_text=_text(call),
        task_id=uuid4().hex,
    )


def _batch(key: str) -> None:
    Batch.objects.create(
        id=uuid4(),
        created_at=timezone.now(),
        state=BatchState.FINISHED,
        revision=1,
        task="benchmarks.chaos.tasks.booking",
        key_text=key,
        chunk_size=CHUNK,
        records=RECORDS,
        chunks=RECORDS // CHUNK,
    )


def judged(plan: Plan) -> Verdict:
    """What the checker says of the tables as they are."""
    return judge(plan, checker.read(plan.prefix))


def first(plan: Plan, kind: Kind) -> str:
    """The key of the first call of a kind."""
    return next(call.key for call in plan.calls if call.kind is kind)


def test_no_call_is_under_way_once_all_have_ended_whatever_is_left_of_earlier_runs(plan: Plan) -> None:
    assert checker.under_way(plan.prefix) == 0
    Sent.objects.create(name="s9/1", key="s9-1")  # its key is pruned
    assert checker.under_way(plan.prefix) == 0
    IdempotencyKey.objects.filter(key_text=f"key={first(plan, Kind.COMPLETED)}").delete()
    assert checker.under_way(plan.prefix) == 1


def test_a_run_that_is_as_planned_has_nothing_lost_doubled_or_odd(plan: Plan) -> None:
    verdict = judged(plan)
    assert verdict.problems == []
    assert {fate.verdict for fate in verdict.fates} == {DONE}


def _remove_an_effect(plan: Plan) -> str:
    key = first(plan, Kind.COMPLETED)
    Effect.objects.filter(key=key).delete()
    return f"lost: {key} "


def _remove_a_step(plan: Plan) -> str:
    key = first(plan, Kind.STEPPED)
    Effect.objects.filter(key=key, part="second").delete()
    return f"lost: {key} "


def _remove_a_record(plan: Plan) -> str:
    key = first(plan, Kind.BATCH)
    Effect.objects.filter(key=key, part="record 5").delete()
    return f"lost: {key} "


def _forget_a_callback(plan: Plan) -> str:
    key = first(plan, Kind.BATCH)
    Effect.objects.filter(key=key, part="callback").delete()
    return f"lost: {key} "


def _leave_a_key_waiting(plan: Plan) -> str:
    key = first(plan, Kind.RESERVED)
    IdempotencyKey.objects.filter(key_text=f"key={key}").update(state=State.PENDING)
    return f"lost: {key} "


def _leave_another_tasks_key_waiting(_plan: Plan) -> str:
    _key(Call(-1, Kind.RESERVED, "somebody-else", 0, 0, 0))
    IdempotencyKey.objects.filter(key_text="key=somebody-else").update(state=State.RETRY)
    return "lost: benchmarks.chaos.tasks.completing key=somebody-else is retry"


def _leave_a_follow_up_waiting(_plan: Plan) -> str:
    now = timezone.now()
    FollowUp.objects.create(digest=UUID(int=1), due_at=now, created_at=now, task_id="a", message="{}")
    return "lost: the follow-up of"


def _leave_a_batch_open(plan: Plan) -> str:
    key = first(plan, Kind.BATCH)
    Batch.objects.filter(key_text=key).update(state=BatchState.RUNNING)
    return f"lost: {key} "


def _forget_a_key(plan: Plan) -> str:
    key = first(plan, Kind.ATOMIC)
    IdempotencyKey.objects.filter(key_text=f"key={key}").delete()
    return f"lost: {key} "


def _miss_a_change(plan: Plan) -> str:
    key = first(plan, Kind.FOLLOWED)
    Change.objects.create(key=key)
    return f"lost: {key} "


def _never_ask_the_provider(plan: Plan) -> str:
    key = first(plan, Kind.RETURNED)
    Charge.objects.filter(key=key).delete()
    return f"lost: {key} "


def _succeed_where_it_should_fail(plan: Plan) -> str:
    key = first(plan, Kind.REFUSED)
    IdempotencyKey.objects.filter(key_text=f"key={key}").update(state=State.SUCCEEDED)
    return f"lost: {key} "


def _miss_a_time(_plan: Plan) -> str:
    Effect.objects.filter(key="every ticking").order_by("id")[2].delete()
    return "lost: every ticking of 00:00:04"


def _never_run_a_periodic_task(_plan: Plan) -> str:
    Effect.objects.filter(key="every ticking_atomically").delete()
    return "lost: every ticking_atomically never ran"


def _double_an_effect(plan: Plan) -> str:
    key = first(plan, Kind.RESERVED_ATOMIC)
    Effect.objects.create(key=key, part="", token=1)
    return f"doubled: {key} "


def _charge_twice(plan: Plan) -> str:
    key = first(plan, Kind.RETURNED)
    Charge.objects.create(key=key, downstream="b")
    return f"doubled: {key} "


def _run_a_time_twice(_plan: Plan) -> str:
    Effect.objects.create(key="every ticking", part=START.isoformat(), token=1)
    return "doubled: every ticking of 00:00:00"


def _complete_without_the_token(plan: Plan) -> str:
    key = first(plan, Kind.COMPLETED)
    Effect.objects.filter(key=key).update(token=9)
    return f"odd: {key} "


def _write_unasked(plan: Plan) -> str:
    Effect.objects.create(key=f"{plan.prefix}none", part="", token=1)
    return f"odd: {plan.prefix}none"


DAMAGE: tuple[Callable[[Plan], str], ...] = (
    _remove_an_effect,
    _remove_a_step,
    _remove_a_record,
    _forget_a_callback,
    _leave_a_key_waiting,
    _leave_another_tasks_key_waiting,
    _leave_a_follow_up_waiting,
    _leave_a_batch_open,
    _forget_a_key,
    _miss_a_change,
    _never_ask_the_provider,
    _succeed_where_it_should_fail,
    _miss_a_time,
    _never_run_a_periodic_task,
    _double_an_effect,
    _charge_twice,
    _run_a_time_twice,
    _complete_without_the_token,
    _write_unasked,
)


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: str(damage.__name__).strip("_"))
def test_the_checker_names_what_is_wrong(plan: Plan, damage: Callable[[Plan], str]) -> None:
    expected = damage(plan)
    assert [problem for problem in judged(plan).problems if problem.startswith(expected)]


def test_a_provider_that_is_asked_twice_with_the_same_key_has_charged_once(plan: Plan) -> None:
    key = first(plan, Kind.RETURNED)
    Charge.objects.create(key=key, downstream="a")
    verdict = judged(plan)
    assert verdict.problems == []
    assert "provider asked 2 times" in next(fate.words for fate in verdict.fates if fate.call.key == key)
