"""The fault of kombu for which ``redis_restart`` exists: what it breaks, and when that may be removed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from django_idempotent_tasks.worker.redis_restart import is_needed
from example_project.servers import start_broker
from tests.processes.plain_celery.conftest import VERSION
from tests.support.workers.processes import ROOT

pytestmark = pytest.mark.process


def end_of_its_broker(*arguments: str) -> str:
    """Stop Redis under a consumer with an unacknowledged message; the traceback of its end, or nothing."""
    with start_broker(persistent=False) as server:
        program = [
            sys.executable,
            "-m",
            "tests.processes.plain_celery.redis_stops",
            server.url,
            str(server.pid),
        ]
        ended = subprocess.run(
            [*program, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
    return "" if ended.returncode == 0 else ended.stderr


def test_a_consumer_outlives_its_broker_with_the_work_around() -> None:
    assert end_of_its_broker("mended") == ""


def test_kombu_alone_ends_a_consumer_whose_broker_stops_where_the_work_around_is_installed() -> None:
    said = end_of_its_broker()
    assert ("no attribute 'hostname'" in said) == is_needed(), said


@pytest.mark.skipif(VERSION != "5.7", reason="an older version keeps its fault")
def test_the_newest_kombu_still_needs_the_work_around() -> None:
    assert is_needed(), "kombu is mended: remove redis_restart.py once no supported version has the fault"
