"""``idem health beat``, ``beat run-now`` and what ``status`` says of beat: exit codes and JSON."""

from __future__ import annotations

import json
import tomllib
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from kombu.utils import symbol_by_name

from django_idempotent_tasks.ledger.stores.clock import shifted
from django_idempotent_tasks.models import BeatCursor
from django_idempotent_tasks.schedulers import SingleInstanceDatabaseScheduler
from tests.beat.bench import Bench
from tests.support.post import no_broker
from tests.support.workers.processes import ROOT


@pytest.fixture
def bench(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr("django_idempotent_tasks.management.upkeep.beat.project_app", lambda: bench.app)
    bench.now = timezone.now()
    return bench


def idem(*words: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the JSON document."""
    printed = StringIO()
    try:
        call_command("idem", *words, "--format", "json", stdout=printed)
    except SystemExit as end:
        return int(str(end.code)), json.loads(printed.getvalue())
    return 0, json.loads(printed.getvalue())


def health(*words: str) -> tuple[int, dict[str, Any]]:
    return idem("health", "beat", *words)


def test_a_leader_that_ticks_is_healthy_and_none_is_not(bench: Bench) -> None:
    assert health()[0] == 1
    beat = bench.beat()
    bench.every(10)
    bench.tick(beat)
    code, facts = health()
    assert (code, facts["leader"], facts["overdue"]) == (0, beat.holder, 0)
    assert facts["last_tick_seconds"] < 10
    with shifted(20):
        code, facts = health("--leader-only")
    assert (code, facts["leader"], 20 <= facts["last_tick_seconds"] < 30) == (1, None, True)
    beat.close()
    assert health()[0] == 1


def test_an_entry_that_was_not_sent_in_time_is_named(bench: Bench) -> None:
    entry = bench.every(10, "late\x1b[2J")
    beat = bench.beat()
    bench.tick(beat)
    BeatCursor.objects.update(last_due_at=timezone.now() - timedelta(seconds=100))
    code, facts = health()
    assert (code, facts["overdue"], facts["overdue_names"]) == (1, 1, [entry.name])
    assert health("--max-age", "5m")[0] == 0
    assert health("--leader-only")[0] == 0
    printed = StringIO()
    with pytest.raises(SystemExit):
        call_command("idem", "health", "beat", stdout=printed)
    assert "1 overdue: late\\x1b[2J" in printed.getvalue()


def test_an_entry_that_no_beat_has_looked_at_for_long_is_overdue(bench: Bench) -> None:
    bench.tick(bench.beat())
    entry = bench.every(3600)
    assert health()[1]["overdue"] == 0
    PeriodicTask.objects.filter(pk=entry.pk).update(date_changed=timezone.now() - timedelta(minutes=5))
    assert health()[1]["overdue"] == 1


@pytest.mark.parametrize("words", [["beat"], ["health", "beat"], ["beat", "run-now", "x"]])
def test_without_django_celery_beat_the_remedy_is_said(settings: Any, words: list[str]) -> None:
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_celery_beat"]
    with pytest.raises(CommandError, match=r"its extra \[beat\]") as caught:
        call_command("idem", *words)
    assert caught.value.returncode == 2


def test_celery_knows_our_beat_by_its_short_name() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        named = tomllib.load(file)["project"]["entry-points"]["celery.beat_schedulers"]
    assert symbol_by_name(named["django_idempotent"]) is SingleInstanceDatabaseScheduler


def run_now(*words: str) -> tuple[int, dict[str, Any]]:
    return idem("beat", "run-now", *words)


def test_run_now_sends_once_and_only_when_it_was_said_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_idempotent_tasks.management.upkeep.run_now.project_app", lambda: bench.app)
    entry = bench.every(3600, "nightly\x1b")
    assert run_now(entry.name) == (0, {"name": entry.name, "outcome": "dry run"})
    assert bench.post.arrived() == []
    with no_broker(bench.post):
        assert run_now(entry.name, "--yes") == (0, {"name": entry.name, "outcome": "sent"})
    code, facts = run_now(entry.name, "--yes")
    assert (code, facts["outcome"], facts["state"]) == (1, "busy", "pending")
    assert run_now(entry.name)[1]["outcome"] == "busy"
    printed = StringIO()
    with pytest.raises(SystemExit):
        call_command("idem", "beat", "run-now", entry.name, stdout=printed)
    assert "nightly\\x1b was not run. It waits for a worker" in printed.getvalue()
    with pytest.raises(CommandError, match="No periodic task 'unknown'"):
        run_now("unknown", "--yes")


def test_an_ordinary_beat_is_told_by_the_probe_and_by_the_status(bench: Bench) -> None:
    entry = bench.every(3600, "{both}")
    bench.tick(bench.beat())
    assert health()[0] == 0
    BeatCursor.objects.update(stranger_at=timezone.now())
    code, facts = health()
    assert (code, facts["also_sent_by_another_beat"]) == (1, [entry.name])
    assert health("--leader-only")[0] == 0
    facts = idem("status")[1]
    assert facts["beat"]["also_sent_by_another_beat"] == [entry.name]
    assert "beat_stranger" in [each["name"] for each in facts["findings"]]


def test_the_status_tells_who_leads_and_that_nobody_does_only_where_ours_has_led(bench: Bench) -> None:
    bench.every(3600)
    assert idem("status")[1]["beat"]["leader"] is None
    assert beat_findings() == []
    beat = bench.beat()
    bench.tick(beat)
    assert idem("status")[1]["beat"]["leader"]["holder"] == beat.holder
    assert beat_findings() == []
    beat.close()
    assert beat_findings() == ["beat_no_leader"]
    PeriodicTask.objects.update(enabled=False)
    assert beat_findings() == []


def beat_findings() -> list[str]:
    """What the status says that a person should do about beat."""
    names = [each["name"] for each in idem("status")[1]["findings"]]
    return [name for name in names if name.startswith("beat_")]


def test_without_django_celery_beat_the_status_leaves_beat_out(bench: Bench, settings: Any) -> None:
    bench.tick(bench.beat())
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_celery_beat"]
    assert idem("status")[1]["beat"] is None
