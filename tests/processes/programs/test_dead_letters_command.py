"""``manage.py idem dead-letters`` as a process beside real workers: what is redriven is done, once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import Category, Reason, State
from tests.processes.prefork.test_sweeping import plant_call
from tests.processes.programs.test_idem_command import QUIET, Idem, idem
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

WHY = ("--reason", "it is up again", "--yes")

__all__ = ["idem"]


def bury(site: Site, key: str) -> IdempotencyKey:
    """A dead letter whose message runs the task ``effect``."""
    plant_call(site, key, state=State.RUNNING, owner="gone:1:x")
    IdempotencyKey.objects.using(site.rows.alias).filter(pk=site.rows.row(key).pk).update(
        state=State.FAILED,
        reason=Reason.RETRIES_USED_UP,
        category=Category.RETRYABLE,
        signature="0123456789abcdef",
        owner=None,
        finished_at=timezone.now(),
        due_at=timezone.now() + timedelta(days=1),
        result='{"error": "E", "message": "no"}',
    )
    return site.rows.row(key)


def test_what_two_operators_redrive_at_once_is_run_once_under_the_same_task_id(
    own_site: Site, idem: Callable[..., Idem], key: str
) -> None:
    keys = [f"{key}-{number}" for number in range(5)]
    buried = [bury(own_site, each) for each in keys]
    with own_site.running("worker", PROJ_IDEMPOTENT_TASKS=QUIET):
        idem("sweep").says("Leads the sweeper.")
        words = ("dead-letters", "redrive", "--category", "retryable", "--wait", *WHY)
        operators = [idem(*words) for _ in range(2)]
        assert {operator.process.wait(60) for operator in operators} <= {0, 1}
        rows = [own_site.rows.wait_for(each, State.SUCCEEDED) for each in keys]
    assert [row.task_id for row in rows] == [row.task_id for row in buried]
    assert [row.attempts for row in rows] == [1] * 5
    assert [len(own_site.rows.effects(each)) for each in keys] == [1] * 5
    assert idem("dead-letters", "list").says("No dead letters.").process.wait(60) == 0


def test_an_export_whose_reader_has_enough_ends_without_a_word(
    own_site: Site, idem: Callable[..., Idem], key: str
) -> None:
    for number in range(3):
        bury(own_site, f"{key}-{number}")
    asked = idem("dead-letters", "export", "--payload")
    assert asked.process.wait(60) == 0
    assert asked.text().count("\n") == 3
    command = [sys.executable, "-m", "django", "idem", "dead-letters", "export", "--payload"]
    with subprocess.Popen(
        command, env=asked.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as cut_off:
        assert cut_off.stdout is not None
        assert cut_off.stderr is not None
        cut_off.stdout.close()
        assert cut_off.stderr.read() == b""
        assert cut_off.wait(60) == 0
