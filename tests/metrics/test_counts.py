"""What is counted and measured of deliveries: each once, after its commit, under bounded labels."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery.exceptions import Retry
from django.utils import timezone

from django_idempotent_tasks import TransientError
from django_idempotent_tasks.messages.header import HEADER, SENT, to_header
from django_idempotent_tasks.metrics.labels import OTHER, category_label, duty_label, reason_label, task_label
from django_idempotent_tasks.states import State
from tests.metrics.heard import listening
from tests.support.deliveries import ALIASES, APPS
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)
modes = pytest.mark.parametrize("mode", ["leased", "atomic"])


@modes
def test_a_run_is_a_claim_and_a_completion_with_its_seconds(till: Till, shop: Counter, mode: str) -> None:
    ran: list[float] = []

    @till.guarded(mode=mode)
    def sell(self: Any, order: int) -> int:
        shop.sell(self)
        before = time.monotonic()
        while time.monotonic() - before < 0.02:
            pass
        ran.append(time.monotonic() - before)
        return order

    with listening() as heard:
        till.deliver(sell, 7)
    assert heard.counts == [("claims",), ("completions",)]
    assert heard.seconds("run")[0] >= ran[0]
    assert {labels[0] for labels in heard.labels} == {sell.name}


def test_what_runs_in_shadow_mode_is_a_count_of_its_own(till: Till, shop: Counter) -> None:
    task = till.seller(shop, enforce=False)
    with listening() as heard:
        for name in ("A", "B"):
            till.deliver(task, 7, id=name)
    assert heard.counts == [("claims",), ("completions",), ("would_refuse", "already_completed")]


@modes
def test_a_retry_and_a_dead_letter_are_counted_by_category(till: Till, shop: Counter, mode: str) -> None:
    @till.guarded(mode=mode, max_retries=1, default_retry_delay=0)
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        shop.sell(self)
        raise TransientError("no")

    with listening() as heard:
        assert isinstance(till.deliver(sell, 7).error, Retry)
        till.deliver_sent(sell)
    assert shop.state is State.FAILED
    assert heard.counts == [
        ("claims",),
        ("retries", "retryable"),
        ("claims",),
        ("dead_lettered", "retryable"),
    ]
    assert len(heard.seconds("run")) == 2


@modes
def test_a_retry_without_an_error_has_no_category(till: Till, shop: Counter, mode: str) -> None:
    @till.guarded(mode=mode)
    def sell(self: Any, order: int) -> None:  # noqa: ARG001
        shop.sell(self)
        raise self.retry()

    with listening() as heard:
        till.deliver(sell, 7)
    assert ("retries", "none") in heard.counts


def test_a_duplicate_is_counted_by_reason(till: Till, shop: Counter) -> None:
    task = till.seller(shop)
    till.deliver(task, 7)
    with listening() as heard:
        till.deliver(task, 7, id="B")
    assert heard.counts == [("duplicates", "already_completed")]


def test_a_takeover_is_a_claim_as_well(till: Till, shop: Counter) -> None:
    task = till.seller(shop, mode="leased")
    till.deliver(task, 7)
    past = timezone.now() - timedelta(seconds=100)
    shop.put(state=State.RUNNING, owner="w:1:gone", finished_at=None, open_at=past)
    with listening() as heard:
        till.deliver(task, 7, redelivered=True)
    assert heard.counts == [("claims",), ("takeovers",), ("completions",)]


@pytest.mark.parametrize(
    ("eta", "least", "most"), [(None, 100, 130), (40, 60, 90), (120, 0, 0)], ids=["none", "past", "ahead"]
)
def test_a_wait_is_from_the_call_or_its_eta(
    till: Till, shop: Counter, eta: int | None, least: int, most: int
) -> None:
    task = till.seller(shop)
    sent = time.time() - 100
    when = None if eta is None else datetime.fromtimestamp(sent + eta, UTC).isoformat()
    with listening() as heard:
        till.deliver(task, 7, **called(task, sent), eta=when)
    assert len(heard.seconds("queue_wait")) == 1
    assert least <= heard.seconds("queue_wait")[0] <= most
    assert (task.name, "celery") in heard.labels


@pytest.mark.parametrize("marks", [{"redriven": 3}, {SENT: "1"}, {SENT: None}], ids=str)
def test_what_was_redriven_or_has_no_time_waited_for_nothing_known(
    till: Till, shop: Counter, marks: dict[str, Any]
) -> None:
    task = till.seller(shop)
    with listening() as heard:
        till.deliver(task, 7, **called(task, time.time() - 100, marks))
    assert heard.seconds("queue_wait") == []


def called(task: Any, sent: float, marks: dict[str, Any] | None = None) -> dict[str, Any]:
    """The header of a call that was made then, as a message brings it."""
    identity = task.idempotency_identity((7,), {}, task_id="A")
    return {HEADER: to_header(identity, task_name=task.name, task_id="A") | {SENT: sent} | (marks or {})}


@pytest.mark.parametrize("telemetry", [["prometheus"], []])
def test_a_call_notes_its_time_only_where_it_is_measured(
    till: Till, shop: Counter, settings: Any, telemetry: list[str]
) -> None:
    settings.IDEMPOTENT_TASKS = {"DATABASE": shop.alias, "TELEMETRY": telemetry}
    task, before = till.seller(shop), time.time() - 1
    task.apply_async((7,))
    sent = till.sent[0].options["headers"][HEADER].get(SENT)
    if telemetry:
        assert before < sent < time.time() + 1
    else:
        assert sent is None


def test_labels_are_bounded_by_what_is_known() -> None:
    assert task_label("no.such.task\n") == OTHER
    assert reason_label("<script>") == duty_label("standby 17") == OTHER
    assert (duty_label("sweeper"), reason_label("in_progress")) == ("sweeper", "in_progress")
    assert category_label(None) == "none"


def test_a_wait_is_never_negative_where_clocks_differ(till: Till, shop: Counter) -> None:
    task = till.seller(shop)
    with listening() as heard:
        till.deliver(task, 7, **called(task, time.time() + 3600))
    assert heard.seconds("queue_wait") == [0.0]
