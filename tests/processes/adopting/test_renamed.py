"""A task is renamed while its calls wait: each runs once, whichever name it was sent under."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from django_idempotent_tasks.models import IdempotencyKey
from django_idempotent_tasks.states import State
from tests.support.waiting import eventually
from tests.support.workers.processes import ROOT
from tests.support.workers.site import Site

pytestmark = pytest.mark.process

OLD = {
    "PROJ_RESULT_BACKEND": "disabled://",
    "PROJ_IDEMPOTENT_TASKS": json.dumps({"REPUBLISH_AFTER": 1}),
}
NEW = {**OLD, "PROJ_RENAMED": "yes"}


def test_calls_under_the_old_and_the_new_name_meet_and_run_once(own_site: Site, key: str) -> None:
    lost, waits, new = (f"{key}-{name}" for name in ("lost", "waits", "new"))
    keys = IdempotencyKey.objects.using(own_site.rows.alias)
    worker = own_site.worker("renamed", "--include", "tests.processes.adopting.renamed", **NEW)

    def send(environment: dict[str, str], *orders: str) -> list[str]:
        command = [sys.executable, "-m", "tests.processes.adopting.renamed", *orders]
        variables = {**os.environ, **worker.environment, "PROJ_RENAMED": "", **environment}
        done = subprocess.run(command, cwd=ROOT, env=variables, check=True, stdout=-1, text=True)
        return done.stdout.split()

    assert send(OLD, lost) == [lost]
    own_site.broker.clear()
    assert send(OLD, waits) == [waits]
    assert send(NEW, lost, waits, new) == ["refused", "refused", new]
    worker.start()
    eventually(lambda: keys.filter(state=State.SUCCEEDED).count() == 3, "all are shipped")
    assert send(NEW, lost, waits, new) == ["refused"] * 3
    assert send(OLD, lost, waits) == ["refused"] * 2
    worker.terminate()
    assert worker.wait() == 0
    assert sorted(each["key"] for each in own_site.journal.read("shipped")) == sorted([lost, waits, new])
    assert {row.task for row in keys.all()} == {"shop.ship", "shop.deliver"}
