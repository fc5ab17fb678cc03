"""``idem batches``: how far each is, what failed, and decisions that are dry runs until ``--yes``."""

from __future__ import annotations

import csv
import json
import logging
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError

from django_idempotent_tasks.models import Batch, BatchState
from django_idempotent_tasks.states import Category, State
from tests.management.graves import LEDGERS
from tests.support.keys import HOSTILE, facts, idem
from tests.support.post import post
from tests.support.uploads import Batches, register

pytestmark = pytest.mark.django_db(databases=LEDGERS)
everywhere = pytest.mark.parametrize("uploads", [Batches(alias) for alias in LEDGERS], ids=LEDGERS)
__all__ = ["post", "register"]
WHY = ("--reason", "the price list was wrong", "--yes")


@pytest.fixture
def uploads() -> Batches:
    return Batches()


def told(uploads: Batches, *words: object) -> tuple[int, Any]:
    return facts(uploads, "batches", *words)  # type: ignore[arg-type]


@everywhere
def test_the_list_tells_how_far_each_is_the_newest_first(uploads: Batches) -> None:
    first, _calls = uploads.of("oof", "...")
    second, _calls = uploads.of("ooo", scope="tenant-1")
    code, seen = told(uploads, "list")
    assert (code, [each["id"] for each in seen["batches"]]) == (0, [str(second.id), str(first.id)])
    running = seen["batches"][1]
    assert (running["state"], running["progress"], running["records"]) == (
        "running",
        0.5,
        {"ok": 2, "fatal": 1, "retryable": 0, "manual_review": 0, "expected": 0, "open": 3, "dropped": 0},
    )
    assert len(told(uploads, "list", "--state", "finished")[1]["batches"]) == 1
    assert len(told(uploads, "list", "--scope", "tenant-1", "--task", "shop.register")[1]["batches"]) == 1
    assert told(uploads, "list", "--limit", "1")[1]["more"] is True
    assert told(uploads, "list", "--state", "submitting")[1]["batches"] == []


def test_text_and_json_tell_the_same(uploads: Batches) -> None:
    batch, calls = uploads.of("oof", "...")
    uploads.failed_chunk(calls[1])
    uploads.settled(batch.id)
    lines = idem("batches", "list")[1]
    assert all(part in lines for part in (str(batch.id), "needs_attention", "50%", "upload-17"))
    code, text = idem("batches", "show", batch.id)
    assert code == 1
    for part in (
        "2 ok, 1 fatal, 3 open",
        "1 ended, 1 needs attention",
        "builtins.ValueError",
        "idem dead-letters",
    ):
        assert part in text
    assert told(uploads, "show", batch.id)[1]["errors"][0]["count"] == 1


def test_what_does_not_exist_is_said(uploads: Batches) -> None:
    for verb in (["show"], ["errors"], ["cancel"], ["redrive"]):
        assert told(uploads, *verb, uuid4()) == (1, {"batch": None})
    with pytest.raises(CommandError, match="no id of a batch"):
        told(uploads, "show", "upload-17")
    with pytest.raises(CommandError, match="no state of a batch"):
        told(uploads, "list", "--state", "pending")
    assert idem("batches", "list")[1].strip() == "No batches."


# -- errors --


@everywhere
def test_errors_are_grouped_and_one_kind_is_listed(uploads: Batches) -> None:
    batch, _calls = uploads.of("off", "fmo")
    grouped = told(uploads, "errors", batch.id)[1]["errors"]
    assert [(each["category"], each["count"]) for each in grouped] == [("fatal", 3), ("manual_review", 1)]
    kind = told(uploads, "errors", batch.id, "--signature", grouped[0]["signature"], "--limit", 2)[1]
    assert ([each["index"] for each in kind["records"]], kind["more"]) == ([1, 2], True)
    review = told(uploads, "errors", batch.id, "--category", "manual-review")[1]
    assert [each["description"] for each in review["records"]] == ["no 4"]


@everywhere
def test_csv_has_every_failed_record_and_the_record_itself_on_demand(uploads: Batches) -> None:
    batch, _calls = uploads.of("off", "fmo")
    uploads.failing(batch.id, 1, Category.FATAL, description="=1+1")
    _code, printed = idem("batches", "errors", batch.id, "--csv", "--database", uploads.alias)
    lines = list(csv.DictReader(StringIO(printed)))
    assert [line["index"] for line in lines] == ["1", "2", "3", "4"]
    assert (lines[0]["description"], "record" in lines[0]) == ("'=1+1", False)
    words = ("--csv", "--payload", "--category", "fatal", "--database", uploads.alias)
    _code, printed = idem("batches", "errors", batch.id, *words)
    assert [line["record"] for line in csv.DictReader(StringIO(printed))][2] == '{"n": 3}'


def test_csv_is_a_form_of_its_own(uploads: Batches) -> None:
    batch, _calls = uploads.of("f..")
    with pytest.raises(CommandError, match="--format json"):
        told(uploads, "errors", batch.id, "--csv")
    with pytest.raises(CommandError, match="--payload is for --csv"):
        told(uploads, "errors", batch.id, "--payload")


def test_a_terminal_sees_no_control_character(uploads: Batches) -> None:
    batch, _calls = uploads.of("f..", key_text=HOSTILE, scope=HOSTILE, cancelled_by=HOSTILE, reason=HOSTILE)
    uploads.failing(
        batch.id, 0, Category.FATAL, description=HOSTILE, error=HOSTILE, value=json.dumps(HOSTILE)
    )
    for words in (
        ["list"],
        ["show", batch.id],
        ["errors", batch.id],
        ["errors", batch.id, "--csv", "--payload"],
    ):
        printed = idem("batches", *words)[1]
        assert all(char.isprintable() for char in printed.replace("\n", "")), words


# -- decisions --


@everywhere
def test_a_cancel_is_a_dry_run_until_yes(
    uploads: Batches, caplog: pytest.LogCaptureFixture, django_capture_on_commit_callbacks: Any
) -> None:
    batch, calls = uploads.of("...", "ooo")
    assert told(uploads, "cancel", batch.id)[1]["outcome"] == "dry run"
    with pytest.raises(CommandError, match="--reason must say why"):
        told(uploads, "cancel", batch.id, "--yes")
    assert uploads.state_of(batch.id) is BatchState.RUNNING
    with (
        caplog.at_level(logging.WARNING, "django_idempotent_tasks"),
        django_capture_on_commit_callbacks(using=uploads.alias, execute=True),
    ):
        assert told(uploads, "cancel", batch.id, *WHY)[1]["outcome"] == "cancelled"
    assert any(str(batch.id) in line and WHY[1] in line for line in caplog.messages)
    assert uploads.row(calls[0]).state == State.CANCELLED
    assert told(uploads, "cancel", batch.id, *WHY)[:1] == (1,)


@everywhere
def test_a_batch_follows_the_cancel_of_a_chunk_s_key(
    uploads: Batches, django_capture_on_commit_callbacks: Any
) -> None:
    batch, calls = uploads.of("...", "ooo")
    with django_capture_on_commit_callbacks(using=uploads.alias, execute=True):
        facts(uploads, "keys", "cancel", calls[0].identity.digest, *WHY)  # type: ignore[arg-type]
    assert uploads.state_of(batch.id) is BatchState.FINISHED


@everywhere
def test_dead_chunks_are_redriven_and_counted(uploads: Batches) -> None:
    batch, calls = uploads.of("...", "...")
    for call in calls:
        uploads.failed_chunk(call)
    uploads.in_columns(calls[1], message=None)
    uploads.settled(batch.id)
    assert "2 chunk(s)" in idem("batches", "redrive", batch.id, "--database", uploads.alias)[1]
    assert uploads.row(calls[0]).state == State.FAILED
    code, seen = told(uploads, "redrive", batch.id, *WHY)
    assert (code, seen["outcome"], seen["redriven_chunks"], seen["left"]) == (1, "redriven", 1, 1)
    assert [uploads.row(call).state for call in calls] == [State.PENDING, State.FAILED]


def test_a_redrive_without_a_chunk_that_needs_attention_names_the_categories(uploads: Batches) -> None:
    batch, _calls = uploads.of("of")
    assert "no chunk needs attention. --category" in idem("batches", "redrive", batch.id)[1]
    assert idem("batches", "redrive", batch.id, *WHY)[1] == "Nothing to redrive.\n"


def test_a_redrive_of_a_task_that_is_gone_ends_its_question_once(uploads: Batches) -> None:
    batch, _calls = uploads.of("of")
    printed = idem("batches", "redrive", batch.id, "--category", "fatal")[1]
    assert printed.startswith("Cannot be redriven: No task of this name is known here")
    assert printed.endswith("?\n")


@pytest.mark.usefixtures("register")
def test_records_of_a_category_are_redriven(uploads: Batches) -> None:
    batch, _calls = uploads.of("off", "omo")
    assert "up to 2 record(s)" in idem("batches", "redrive", batch.id, "--category", "fatal")[1]
    code, seen = told(uploads, "redrive", batch.id, "--category", "fatal", *WHY)
    assert (code, seen["redriven_records"], seen["redriven_chunks"]) == (0, 2, 1)
    assert uploads.outcomes(batch.id) == ["oxx", "omo", ".."]


def test_what_cannot_be_redriven_is_said_before_and_after_yes(uploads: Batches) -> None:
    batch, _calls = uploads.of("off")
    Batch.objects.update(state=BatchState.CANCELLED)
    for words in (WHY[:2], WHY):
        code, seen = told(uploads, "redrive", batch.id, *words)
        assert (code, seen["outcome"]) == (1, "not possible")


def test_records_are_redriven_in_the_database_of_the_settings_only() -> None:
    uploads = Batches("sqlite")
    batch, _calls = uploads.of("off")
    code, _seen = told(uploads, "redrive", batch.id, "--category", "fatal", *WHY)
    assert (code, uploads.outcomes(batch.id)) == (1, ["off"])
