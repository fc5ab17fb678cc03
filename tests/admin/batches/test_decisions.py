"""Decisions about batches: each is asked, carried out once, logged, and behind its permission."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from django_idempotent_tasks.models import BatchChunk, BatchState, ChunkState
from django_idempotent_tasks.states import Category, State
from tests.admin.batches.conftest import WHY, decide, url
from tests.admin.conftest import HOSTILE, Person, logged, messages_of, page, seen
from tests.admin.test_keys import inert
from tests.support.uploads import Batches

pytestmark = pytest.mark.django_db


def test_a_cancel_is_asked_carried_out_and_logged(
    root: Client, uploads: Batches, django_capture_on_commit_callbacks: Any
) -> None:
    batch, calls = uploads.of("...", "ooo")
    assert "Cancel" in root.get(url(batch, "cancel")).content.decode()
    with django_capture_on_commit_callbacks(execute=True):
        response = decide(root, batch, "cancel")
    assert "Cancelled" in messages_of(response)
    assert uploads.row(calls[0]).state == State.CANCELLED
    row = uploads.batch_row(batch.id)
    assert (row.state, row.cancelled_by, row.reason) == (BatchState.CANCELLED, "root", WHY)
    assert logged() == [f"Cancel the batch: {WHY}"]
    assert "The batch is cancelled" in messages_of(root.get(url(batch, "cancel"), follow=True))


def test_dead_chunks_are_redriven(
    root: Client, uploads: Batches, django_capture_on_commit_callbacks: Any
) -> None:
    batch, calls = uploads.of("...", "ooo")
    uploads.failed_chunk(calls[0])
    uploads.settled(batch.id)
    with django_capture_on_commit_callbacks(execute=True):
        response = decide(root, batch, "redrive", category="")
    assert "one chunk goes on" in messages_of(response)
    assert uploads.row(calls[0]).state == State.PENDING
    assert uploads.state_of(batch.id) is BatchState.RUNNING
    assert logged() == [f"Redrive, chunks that need attention: {WHY}"]


@pytest.mark.usefixtures("register")
def test_records_of_a_category_are_redriven(root: Client, uploads: Batches) -> None:
    batch, _calls = uploads.of("off", "omo")
    assert "3 records" not in messages_of(root.get(url(batch)))
    response = decide(root, batch, "redrive", category="fatal")
    assert "2 records in a new chunk" in messages_of(response)
    assert uploads.outcomes(batch.id) == ["oxx", "omo", ".."]
    assert logged() == [f"Redrive, fatal: {WHY}"]


def test_a_batch_follows_the_cancel_of_a_chunk_s_key(
    root: Client, uploads: Batches, django_capture_on_commit_callbacks: Any
) -> None:
    batch, calls = uploads.of("...", "ooo")
    target = page("idempotencykey", "cancel", calls[0].identity.digest)
    with django_capture_on_commit_callbacks(execute=True):
        root.post(target, {"reason": WHY, "seen": seen(root, target)})
    assert uploads.chunk_states(batch.id)[0] is ChunkState.CANCELLED
    assert uploads.state_of(batch.id) is BatchState.FINISHED


def test_a_redrive_of_nothing_says_so_and_is_not_logged(root: Client, uploads: Batches) -> None:
    batch, _calls = uploads.of("ooo")
    assert "Nothing to redrive." in messages_of(decide(root, batch, "redrive", category=""))
    assert LogEntry.objects.count() == 0


def test_a_decision_about_a_batch_that_moved_on_since_it_was_shown_changes_nothing(
    root: Client, uploads: Batches
) -> None:
    for name, form in (("redrive", {"category": "fatal"}), ("cancel", {})):
        batch, _calls = uploads.of("off", "...")
        mark = seen(root, url(batch, name))
        with uploads.store().together():
            assert uploads.store().reopen_batch(batch.id, revision=batch.revision)
        response = root.post(url(batch, name), {"reason": WHY, "seen": mark, **form}, follow=True)
        assert "moved on" in messages_of(response)
        assert uploads.outcomes(batch.id)[0] == "off"
        assert uploads.state_of(batch.id) is BatchState.RUNNING
    assert LogEntry.objects.count() == 0


@pytest.mark.parametrize("mark", ["", "x", "-1", "99999999999"])
def test_a_forged_form_is_refused(root: Client, uploads: Batches, mark: str) -> None:
    batch, _calls = uploads.of("...")
    response = root.post(url(batch, "cancel"), {"reason": WHY, "seen": mark})
    assert response.status_code == 400
    response = root.post(url(batch, "redrive"), {"reason": WHY, "seen": "1", "category": "sudo"})
    assert response.status_code == 400
    assert uploads.state_of(batch.id) is BatchState.RUNNING


@pytest.mark.parametrize("name", ["cancel", "redrive"])
def test_each_decision_has_its_permission(person: Person, uploads: Batches, name: str) -> None:
    batch, _calls = uploads.of("...")
    other = {"cancel": "redrive_batch", "redrive": "cancel_batch"}[name]
    may_not, may = person("view_batch", other), person("view_batch", f"{name}_batch", name="bob")
    assert (may_not.get(url(batch, name)).status_code, may.get(url(batch, name)).status_code) == (403, 200)
    labels = [each["label"] for each in may.get(url(batch)).context["actions"]]
    assert labels == [{"cancel": "Cancel the batch", "redrive": "Redrive"}[name]]


def test_the_key_of_a_batch_is_hidden_like_that_of_a_call(person: Person, uploads: Batches) -> None:
    batch, _calls = uploads.of("...", key_text="upload=s3cret")
    ann = person("view_batch", "cancel_batch")
    for target in (page("batch"), url(batch), url(batch, "cancel"), url(batch, "history")):
        text = ann.get(target).content.decode()
        assert ("s3cret" in text, "upload=…" in text) == (False, True), target


def test_hostile_texts_do_not_act(root: Client, uploads: Batches) -> None:
    batch, _calls = uploads.of("f..", key_text=HOSTILE, task=HOSTILE, scope=HOSTILE[:120], reason=HOSTILE)
    uploads.failing(batch.id, 0, Category.FATAL, description=HOSTILE, error=HOSTILE)
    BatchChunk.objects.update(task_id=HOSTILE)
    for target in (page("batch"), url(batch), url(batch, "cancel"), url(batch, "redrive")):
        inert(root.get(target).content.decode())
