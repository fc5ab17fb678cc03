"""``manage.py idem`` as a process: the sweeper in the foreground, and exit codes as a shell sees them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Self

import pytest
from django.utils import timezone

from django_idempotent_tasks.models import Leader
from django_idempotent_tasks.states import State
from tests.processes.prefork.test_sweeping import plant_call
from tests.support.waiting import eventually
from tests.support.workers.processes import ROOT, _die_with_parent
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

QUIET = '{"SWEEPER": "off"}'


class Idem:
    """One ``python -m django idem ...`` at a site."""

    def __init__(self, site: Site, log: Path, *words: str, **environment: str) -> None:
        self.log = log
        variables = {
            "DJANGO_SETTINGS_MODULE": "tests.sample.settings",
            "DATABASE_URL": site.database_url,
            "CELERY_BROKER_URL": site.broker.url,
            "PROJ_PREFIX": site.broker.prefix,
            "PROJ_DIRECTORY": str(site.directory),
            "PROJ_IDEMPOTENT_TASKS": QUIET,
        }
        self.environment = {**os.environ, **variables, **environment}
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "django", "idem", *words],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  no thread of ours holds a lock here
            )

    def says(self, words: str) -> Self:
        """Wait until it has printed these words."""
        eventually(lambda: words in self.text() or self.process.poll() is not None, words, within=60)
        assert words in self.text(), self.text()
        return self

    def text(self) -> str:
        """Everything that it has printed."""
        return self.log.read_text()

    def end(self, by: signal.Signals) -> int:
        """Send a signal; the exit code."""
        self.process.send_signal(by)
        return self.process.wait(30)


@pytest.fixture
def idem(own_site: Site, tmp_path: Path) -> Iterator[Callable[..., Idem]]:
    """Starts commands at a site of their own, where no worker sweeps and nobody has led."""
    Leader.objects.using(own_site.rows.alias).all().delete()
    started: list[Idem] = []

    def start(*words: str, **environment: str) -> Idem:
        started.append(Idem(own_site, tmp_path / f"{len(started)}.log", *words, **environment))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()


def lease_left(site: Site) -> timedelta:
    """How long the leader's lease still runs; the tests' servers are on this machine's clock."""
    leader = site.rows.leader()
    assert leader is not None
    return leader.expires_at - timezone.now()


def test_a_sweep_process_recovers_the_work_of_a_dead_worker(
    own_site: Site, idem: Callable[..., Idem], key: str
) -> None:
    plant_call(own_site, key, state=State.RUNNING, owner="gone:1:x")
    with own_site.running("worker", PROJ_IDEMPOTENT_TASKS=QUIET):
        idem("sweep").says("Leads the sweeper.")
        row = own_site.rows.wait_for(key, State.SUCCEEDED)
    assert (row.attempts, row.crashes) == (2, 1)
    assert len(own_site.rows.effects(key)) == 1


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0_and_gives_the_lead_back_at_once(
    own_site: Site, idem: Callable[..., Idem], stop: signal.Signals
) -> None:
    leading = idem("sweep").says("Leads the sweeper.")
    assert lease_left(own_site) > timedelta(seconds=5)
    assert leading.end(stop) == 0
    assert lease_left(own_site) <= timedelta(0)
    assert leading.text().endswith("Ended; another sweeper may lead now.\n")


def test_one_of_two_leads_and_the_other_takes_over_when_it_is_killed(
    own_site: Site, idem: Callable[..., Idem]
) -> None:
    first = idem("sweep").says("Leads the sweeper.")
    led = own_site.rows.leader_holder()
    second = idem("sweep").says("Sweeps as ")
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    assert own_site.rows.leader_holder() == led
    assert lease_left(own_site) > timedelta(0), "a killed one cannot resign"
    second.says("Leads the sweeper.")
    assert own_site.rows.leader_holder() in second.text()


def test_one_that_stands_by_leaves_the_lead_alone_when_it_ends(
    own_site: Site, idem: Callable[..., Idem]
) -> None:
    idem("sweep").says("Leads the sweeper.")
    led = own_site.rows.leader_holder()
    assert idem("sweep").says("Sweeps as ").end(signal.SIGTERM) == 0
    assert own_site.rows.leader_holder() == led
    assert lease_left(own_site) > timedelta(0)


def test_a_shell_sees_0_when_all_is_well_and_1_when_nobody_leads(idem: Callable[..., Idem]) -> None:
    assert idem("status").process.wait(60) == 1
    idem("sweep").says("Leads the sweeper.")
    assert idem("status").process.wait(60) == 0


def test_a_task_with_a_wrong_option_keeps_nobody_from_looking(idem: Callable[..., Idem]) -> None:
    asked = idem("status", PROJ_BAD_TASK="1")
    assert asked.process.wait(60) == 1
    assert "Nobody leads the sweeper" in asked.text()
    assert "E001" not in asked.text()


def test_a_shell_sees_2_when_the_database_is_down_and_no_password(
    own_site: Site, idem: Callable[..., Idem]
) -> None:
    down = "postgresql://postgres:hunter2@127.0.0.1:9/nothing"
    for words in (("status",), ("keys", "list"), ("sweep", "--once"), ("prune", "--yes")):
        asked = idem(*words, DATABASE_URL=down)
        assert asked.process.wait(60) == 2
        assert "Is it up" in asked.text()
        assert "hunter2" not in asked.text()
        assert "Traceback" not in asked.text()
    assert own_site.rows.count() == 0
