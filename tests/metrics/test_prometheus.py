"""What Prometheus scrapes: counts, times and gauges, by a fixed number of bounded statements."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from django.core.management import CommandError
from django.db import OperationalError, connections
from django.test.utils import CaptureQueriesContext

pytest.importorskip("prometheus_client")
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from django_idempotent_tasks.metrics import gauges, prometheus
from django_idempotent_tasks.metrics.instruments import BOUNDS
from django_idempotent_tasks.metrics.listener import Listener
from django_idempotent_tasks.operations import pauses
from django_idempotent_tasks.states import State
from django_idempotent_tasks.sweeper.pauses import hold_back
from tests.metrics.heard import UID, disconnect
from tests.support.deliveries import ALIASES, APPS
from tests.support.keys import Keys, idem
from tests.support.till import Counter, Till

pytestmark = pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS)

Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def counted() -> Iterator[None]:
    """Count for Prometheus, as TELEMETRY does."""
    Listener(prometheus.sink()).connect(UID)
    yield
    disconnect(UID)


def values(text: str | None = None) -> Values:
    """Each sample by its name and labels."""
    families = text_string_to_metric_families(text or prometheus.exposition().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.mark.usefixtures("counted")
def test_a_run_is_in_counters_and_in_the_buckets_of_its_histogram(till: Till, shop: Counter) -> None:
    task = till.seller(shop, name=f"till.{uuid4()}")
    till.deliver(task, 7)
    till.deliver(task, 7, id="B")
    seen, name = values(), (("task", task.name),)
    assert seen["idempotent_tasks_claims_total", name] == 1
    assert seen["idempotent_tasks_completions_total", name] == 1
    duplicates = (("reason", "already_completed"), *name)
    assert seen["idempotent_tasks_duplicates_total", duplicates] == 1
    assert seen["idempotent_tasks_run_seconds_count", name] == 1
    assert 0 < seen["idempotent_tasks_run_seconds_sum", name] < 60
    bounds = {
        float(dict(labels)["le"])
        for (of, labels), _value in seen.items()
        if of.endswith("run_seconds_bucket")
    }
    assert bounds == {*BOUNDS, float("inf")}


def test_gauges_say_what_stands_in_the_ledger(alias: str) -> None:
    keys = Keys(alias)
    keys.completed()
    dead = keys.failed(keys.claimed())
    keys.in_columns(dead, finished_at=keys.now(dead) - timedelta(hours=2))
    waits = keys.reserved()
    keys.in_columns(waits, created_at=keys.now(waits) - timedelta(minutes=9))
    before = values()
    assert keys.store().lead("sweeper", holder="host:1:abc", lease=60)
    seen = values()
    assert seen["idempotent_tasks_ledger_up", ()] == 1
    assert seen["idempotent_tasks_keys", (("state", "succeeded"),)] == 1
    assert seen["idempotent_tasks_dead_letters", (("category", "retryable"),)] == 1
    assert 7190 < seen["idempotent_tasks_dead_letter_oldest_seconds", ()] < 7300
    assert 530 < seen["idempotent_tasks_oldest_pending_seconds", ()] < 640
    assert seen["idempotent_tasks_relay_lag_seconds", ()] == 0
    assert before["idempotent_tasks_leader", (("duty", "sweeper"),)] == 0
    assert before["idempotent_tasks_findings", (("name", "no_leader"),)] == 1
    assert seen["idempotent_tasks_leader", (("duty", "sweeper"),)] == 1
    assert ("idempotent_tasks_findings", (("name", "no_leader"),)) not in seen


def test_gauges_count_the_pauses_in_force_and_the_calls_that_wait_for_them(alias: str) -> None:
    keys = Keys(alias)
    waits = keys.reserved(wait=0)
    store = keys.store()
    row = pauses.pause(store, waits.task, by="ann", reason="the bank is down")
    assert [each.publish for each in hold_back(store, store.sweep(bite=9, republish=300))] == []
    seen = values()
    assert (seen["idempotent_tasks_pauses", ()], seen["idempotent_tasks_held_calls", ()]) == (1, 1)
    assert pauses.resume(store, row, by="ann", rate=1)
    seen = values()
    assert (seen["idempotent_tasks_pauses", ()], seen["idempotent_tasks_held_calls", ()]) == (0, 1)


def test_a_message_that_is_not_sent_is_the_lag_of_the_relay(alias: str) -> None:
    keys = Keys(alias)
    call = keys.reserved(wait=0, sends=-1)
    keys.in_columns(call, created_at=keys.now(call) - timedelta(seconds=300))
    assert 290 < values()["idempotent_tasks_relay_lag_seconds", ()] < 400


def test_a_scrape_is_a_fixed_number_of_statements(alias: str) -> None:
    numbers = []
    for _ in range(2):
        with CaptureQueriesContext(connections[alias]) as seen:
            prometheus.exposition()
        numbers.append(len(seen))
        for _ in range(9):
            Keys(alias).failed(Keys(alias).claimed())
    assert numbers[0] == numbers[1] < 30


def test_a_ledger_that_does_not_answer_is_told_and_breaks_no_scrape(
    alias: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def look(_store: object) -> None:
        raise OperationalError(f"{alias}: no answer")

    monkeypatch.setattr(gauges, "look", look)
    seen = values()
    assert seen["idempotent_tasks_ledger_up", ()] == 0
    assert not any(name == "idempotent_tasks_keys" for name, _labels in seen)
    assert "did not answer" in caplog.text


def test_the_gauges_may_stand_in_a_registry_of_the_project(alias: str) -> None:
    own = CollectorRegistry()
    with CaptureQueriesContext(connections[alias]) as asked:
        own.register(prometheus.LedgerCollector())
    assert len(asked) == 0
    assert own.get_sample_value("idempotent_tasks_ledger_up") == 1


def test_nothing_of_the_projects_own_metrics_is_shown(alias: str) -> None:  # noqa: ARG001
    prometheus.sink()
    assert any(not metric.name.startswith("idempotent_tasks") for metric in REGISTRY.collect())
    assert all(name.startswith("idempotent_tasks_") for name, _labels in values())


# -- the command --


def test_idem_metrics_prints_the_same(alias: str) -> None:
    code, text = idem("metrics", "--database", alias)
    assert code == 0
    assert values(text)["idempotent_tasks_ledger_up", ()] == 1


@contextmanager
def taken_port() -> Iterator[int]:
    """A port on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_idem_metrics_says_what_to_do_about_a_port_that_is_taken(alias: str) -> None:  # noqa: ARG001
    with taken_port() as port, pytest.raises(CommandError, match="give --serve another"):
        idem("metrics", "--serve", f"127.0.0.1:{port}")
    for wrong in ("9180", "host:", "host:70000", "[::1]:80"):
        with pytest.raises(CommandError, match="no address with a port"):
            idem("metrics", "--serve", wrong)


@pytest.mark.parametrize("words", [(), ("--serve", "127.0.0.1:0")])
def test_idem_metrics_says_what_to_do_about_a_directory_that_is_not_there(
    alias: str, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(prometheus.DIRECTORY, str(tmp_path / "gone"))
    with pytest.raises(CommandError, match="which is no directory: make it") as failed:
        idem("metrics", *words)
    assert failed.value.returncode == 2, alias


def test_states_are_named_as_elsewhere(alias: str) -> None:  # noqa: ARG001
    named = {dict(labels).get("state") for name, labels in values() if name == "idempotent_tasks_keys"}
    assert named == {state.name.lower() for state in State}
