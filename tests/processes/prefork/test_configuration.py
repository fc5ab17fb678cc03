"""A task with a wrong option is found before it can do harm."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from django.db import connections

from django_idempotent_tasks.models import IdempotencyKey
from tests.support.workers.processes import ROOT
from tests.support.workers.site import Site

pytestmark = pytest.mark.process


def test_a_worker_refuses_to_start_and_says_what_to_change(own_site: Site) -> None:
    worker = own_site.worker("refusing", PROJ_BAD_TASK="1").launch()

    assert worker.wait(within=60) != 0
    assert " ready." not in worker.text()
    assert "misconfigured: option 'lease' must be" in worker.text()


def test_a_worker_refuses_a_ledger_that_has_lost_its_primary_key(own_site: Site) -> None:
    table = IdempotencyKey._meta.db_table
    with connections[own_site.rows.alias].cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey")
    try:
        worker = own_site.worker("keyless").launch()
        assert worker.wait(within=60) != 0
    finally:
        with connections[own_site.rows.alias].cursor() as cursor:
            cursor.execute(f"ALTER TABLE {table} ADD PRIMARY KEY (digest)")
    assert " ready." not in worker.text()
    assert f"The primary key (digest) of the table {table} is missing" in worker.text()


def test_manage_check_reports_it_and_the_other_tasks_are_fine(own_site: Site) -> None:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.sample.settings",
        "DATABASE_URL": own_site.database_url,
    }
    command = [sys.executable, "-m", "django", "check"]
    bad = subprocess.run(
        command,
        cwd=ROOT,
        env={**environment, "PROJ_BAD_TASK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert bad.returncode != 0
    assert "django_idempotent_tasks.E001" in bad.stderr
    assert bad.stderr.count("E001") == 1
    assert "misconfigured" in bad.stderr
