"""The command finds all that is wrong in an ill project, and nothing in the example's."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from django_idempotent_tasks.operations.doctor.check import Severity
from django_idempotent_tasks.operations.doctor.examine import STATIC, all_checks

ROOT = Path(__file__).resolve().parents[3]
ILL = ["redis", "postgresql", "mysql"]
#: A package that is not installed is no setting; a time-out that is too short is a time-out; and these have
#: pools of processes.
NOT_HERE = {"D301", "D304", "D309"}


def _doctor(settings: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("CELERY_")}
    command = [sys.executable, "-m", "django", "idem", "doctor", *words, "--settings", settings]
    return subprocess.run(
        command, cwd=ROOT, env={**inherited, **environment}, capture_output=True, text=True, check=False
    )


def _facts(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stdout, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


@pytest.mark.skipif(importlib.util.find_spec("MySQLdb") is None, reason="mysqlclient is not installed")
@pytest.mark.skipif(importlib.util.find_spec("django_celery_beat") is None, reason="no django-celery-beat")
def test_every_check_of_settings_and_tasks_finds_its_fault_in_an_ill_project() -> None:
    found = set()
    for ill in ILL:
        done = _doctor("tests.operations.doctor.ill.settings", "--format", "json", ILL=ill)
        facts = _facts(done)
        assert done.returncode == 1
        assert "pass-word" not in done.stdout + done.stderr
        found |= {each["id"] for each in facts["findings"]}
    static = {check.id for group in STATIC for check in group.checks}
    assert static - found == NOT_HERE
    assert "W002" in found, "the system checks are shown too"


def test_nothing_is_found_in_the_example_project() -> None:
    done = _doctor(
        "example_project.settings",
        "--format",
        "json",
        DATABASE_URL="postgresql://shop:pass-word@db.internal/shop",
        CELERY_BROKER_URL="rediss://:pass-word@redis.internal:6379/0",
    )
    assert (done.returncode, _facts(done)["findings"]) == (0, [])


def test_a_wrong_setting_of_this_package_is_a_finding_and_no_failure() -> None:
    environment = {"DATABASE_URL": "sqlite:///x", "IDEMPOTENCY_LEASE": "0"}
    done = _doctor("example_project.settings", "--format", "json", **environment)
    assert done.returncode == 1
    assert "E002" in {each["id"] for each in _facts(done)["findings"]}


def test_each_check_is_whole() -> None:
    for check in all_checks():
        assert check.why.endswith("."), check.id
        assert check.remedy.endswith("."), check.id
        assert not check.finds.endswith("."), check.id
        assert check.severity in Severity
    ids = [check.id for check in all_checks()]
    assert len(ids) == len(set(ids))
