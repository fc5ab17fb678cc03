"""``idem prune --scope``, ``idem keys cancel --scope``: what a departed tenant left, and nobody else's."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from django_idempotent_tasks.identity.key import Identity
from django_idempotent_tasks.ledger.values import Call
from django_idempotent_tasks.management.upkeep import erase, erase_batches
from django_idempotent_tasks.models import (
    AnsweredCall,
    Batch,
    BatchChunk,
    BatchRecord,
    DuplicateAttempt,
    FailedJob,
    IdempotencyKey,
    Step,
)
from django_idempotent_tasks.states import State
from tests.management.graves import LEDGERS, everywhere
from tests.management.test_command_cancel import WHY
from tests.support.keys import Keys, both, facts, idem
from tests.support.uploads import Batches

pytestmark = pytest.mark.django_db(databases=LEDGERS)


def of(scope: str | None, task_id: str = "A") -> Call:
    """A call of a tenant under a key of its own."""
    return Call(Identity(uuid4(), scope, "7", None), "shop.charge", task_id, None)


def furnish(keys: Keys, scope: str | None) -> None:
    """One key of every end, one of every life, one that a later call took, and duplicates of two."""
    stepping = keys.claimed(of(scope))
    assert keys.store().keep_step(stepping, "plan", value="1", elapsed=1.0)
    keys.completed(stepping)
    keys.failed(keys.claimed(of(scope)))
    keys.cancelled(keys.claimed(of(scope)))
    assert keys.fail(keys.claimed(of(scope)), state=State.REVIEW)
    keys.reserved(of(scope))
    running = keys.claimed(of(scope))
    assert keys.store().keep_step(running, "plan", value="1", elapsed=1.0)
    again = keys.claimed_anew(
        Call(keys.completed(keys.claimed(of(scope)), retention=0).call.identity, "shop.charge", "B", None)
    )
    keys.complete(again)
    for claim in (running, again):
        keys.store().record_duplicate(claim.call, place="worker", reason="in_progress")


def everything(keys: Keys, scope: str | None) -> tuple[dict[str, int], int, int]:
    """What is there of a tenant: keys by state, duplicates, and answered calls of all."""
    rows = IdempotencyKey.objects.using(keys.alias).filter(scope=scope)
    states = {state.name: n for state in State if (n := rows.filter(state=state).count())}
    duplicates = DuplicateAttempt.objects.using(keys.alias).filter(scope=scope).count()
    return states, duplicates, AnsweredCall.objects.using(keys.alias).count()


@both
def test_without_yes_it_tells_what_it_would_delete_and_keep(keys: Keys) -> None:
    furnish(keys, "acme")
    furnish(keys, None)
    before = everything(keys, "acme")
    code, seen = facts(keys, "prune", "--scope", "acme")
    assert (code, seen["outcome"]) == (1, "dry run")
    assert seen["would_delete"] == {
        "succeeded": 2,
        "failed": 1,
        "cancelled": 1,
        "answered": 1,
        "steps": 1,
        "duplicates": 1,
        "failed_jobs": 1,
    }
    assert seen["kept"] == {"review": 1, "pending": 1, "running": 1}
    assert everything(keys, "acme") == before


@pytest.mark.parametrize(("step", "bite"), [(10_000, 1000), (3, 2), (1, 1)])
@both
def test_it_deletes_a_tenant_s_finished_keys_at_any_age_and_nobody_else_s(
    keys: Keys, step: int, bite: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erase, "STEP", step)
    others = ["acme-2", "Acme", "", None]
    for scope in ("acme", *others):
        furnish(keys, scope)
    before = [everything(keys, scope)[:2] for scope in others]
    code, seen = facts(keys, "prune", "--scope", "acme", "--yes", "--bite", bite, "--pause", 0)
    assert (code, seen["more"]) == (1, False)
    assert seen["deleted"] == {
        "succeeded": 2,
        "failed": 1,
        "cancelled": 1,
        "answered": 1,
        "steps": 1,
        "duplicates": 1,
        "failed_jobs": 1,
    }
    failed = FailedJob.objects.using(keys.alias).filter(scope="acme")
    assert [job.state for job in failed] == [State.REVIEW], "that of the key that is kept"
    assert everything(keys, "acme") == ({"PENDING": 1, "RUNNING": 1, "REVIEW": 1}, 1, len(others))
    assert Step.objects.using(keys.alias).count() == 1 + 2 * len(others), "those of live keys, and of others"
    assert [everything(keys, scope)[:2] for scope in others] == before


@both
def test_live_keys_are_cancelled_by_scope_and_then_erased(keys: Keys) -> None:
    claim, other = keys.claimed(of("acme")), keys.claimed(of("other"))
    keys.reserved(of("acme"))
    assert facts(keys, "keys", "cancel", "--scope", "acme", *WHY)[1]["cancelled"] == 2
    assert facts(keys, "prune", "--scope", "acme", "--yes") == (
        0,
        {
            "outcome": "done",
            "scope": "acme",
            "more": False,
            "deleted": {"cancelled": 2},
            "kept": {},
        },
    )
    assert keys.complete(claim) is False
    assert keys.complete(other) is True


@pytest.mark.parametrize("bite", [1000, 1])
@everywhere
def test_ended_batches_go_with_their_chunks_and_records_and_others_are_kept(keys: Keys, bite: int) -> None:
    uploads = Batches(keys.alias)
    for scope in ("acme", "other"):
        uploads.of("off", "ooo", scope=scope)  # finished
        running, _calls = uploads.of("f..", scope=scope)
        stopped, calls = uploads.of("r..", "...", scope=scope)
        uploads.store().cancel_batch(stopped.id, by="ann", reason="")
        uploads.store().cancel_waiting([call.task_id for call in calls], window=9)
        uploads.follow(*calls)
        going, _calls = uploads.of("m..", scope=scope)  # cancelled, while a chunk still runs
        uploads.store().cancel_batch(going.id, by="ann", reason="")
        keep = {running.id, going.id}
    counts = {"batches": 2, "failed_records": 3, "chunks": 4}
    code, seen = facts(keys, "prune", "--scope", "acme")
    assert (code, seen["would_delete"], seen["kept"]) == (1, counts, {"batches": 2})
    assert Batch.objects.using(keys.alias).count() == 8
    code, seen = facts(keys, "prune", "--scope", "acme", "--yes", "--bite", bite, "--pause", 0)
    assert (code, seen["deleted"], seen["kept"]) == (1, counts, {"batches": 2})
    assert Batch.objects.using(keys.alias).filter(scope="other").count() == 4
    left = Batch.objects.using(keys.alias).filter(scope="acme").values_list("pk", flat=True)
    assert len(set(left) | keep) == 4
    assert BatchRecord.objects.using(keys.alias).count() == 2 + 5
    assert BatchChunk.objects.using(keys.alias).count() == 2 + 6


@everywhere
def test_a_batch_that_is_redriven_meanwhile_is_kept_whole(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads = Batches(keys.alias)
    batch, _calls = uploads.of("off", scope="acme")
    whole = erase_batches._deleted

    def reopened(*args: Any) -> Any:
        uploads.store().reopen_batch(batch.id, revision=batch.revision)
        return whole(*args)

    monkeypatch.setattr(erase_batches, "_deleted", reopened)
    code, seen = facts(keys, "prune", "--scope", "acme", "--yes")
    assert (code, seen["deleted"], seen["kept"]) == (1, {}, {"batches": 1})
    assert len(uploads.records_of(batch.id)) == 2
    assert uploads.outcomes(batch.id) == ["off"]


@both
def test_the_empty_scope_is_a_tenant_too(keys: Keys) -> None:
    keys.completed(keys.claimed(of("")))
    keys.completed(keys.claimed(of(None)))
    assert facts(keys, "prune", "--scope", "", "--yes")[1]["deleted"]["succeeded"] == 1
    assert everything(keys, None)[0] == {"SUCCEEDED": 1}


@both
def test_a_key_that_is_taken_meanwhile_is_kept_and_its_answer_with_it(keys: Keys) -> None:
    done = keys.completed(keys.claimed(of("acme")), retention=0)
    gone = keys.completed(keys.claimed(of("acme")))
    read_before = {done.digest: State.SUCCEEDED, gone.digest: State.SUCCEEDED}
    keys.claimed_anew(Call(done.call.identity, "shop.charge", "B", None))
    bite = erase._keys(keys.alias, read_before, list(read_before), yes=True)
    assert (dict(bite.kept), bite.deleted["succeeded"], bite.deleted["answered"]) == ({"running": 1}, 1, 0)
    assert everything(keys, "acme") == ({"RUNNING": 1}, 0, 1)


def test_it_stops_at_max_seconds_and_says_so() -> None:
    keys = Keys("default")
    furnish(keys, "acme")
    code, text = idem("prune", "--scope", "acme", "--yes", "--bite", 1, "--max-seconds", 0)
    assert "Stopped at --max-seconds" in text
    assert IdempotencyKey.objects.filter(scope="acme").count() == 7
    assert code == 1


def test_the_admin_finds_a_tenant_s_keys_and_duplicates(client: Client) -> None:
    keys = Keys("default")
    for scope in ("acme", "other", ""):
        keys.store().record_duplicate(keys.claimed(of(scope, f"call-of-{scope}")).call, place="w", reason="r")
    client.force_login(User.objects.create_superuser("root", password="secret"))
    for model in ("idempotencykey", "duplicateattempt"):
        url = reverse(f"admin:django_idempotent_tasks_{model}_changelist")
        lines = client.get(url, {"scope": "acme"}).context["cl"].result_list
        assert [each.task_id for each in lines] == ["call-of-acme"]
