"""Real prefork workers: what their children count is scraped from outside, also after they were killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client")

from django_idempotent_tasks.metrics.prometheus import DIRECTORY
from django_idempotent_tasks.states import State
from example_project.servers.process import free_port
from tests.sample import tasks
from tests.support.waiting import eventually
from tests.support.workers.site import Site

pytestmark = pytest.mark.process
TOLD = {"PROJ_IDEMPOTENT_TASKS": json.dumps({"TELEMETRY": ["prometheus"]})}


def scraped(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


@contextmanager
def exporter(port: int, environment: Mapping[str, str]) -> Iterator[None]:
    """``idem metrics --serve`` beside the workers; it ends by SIGTERM with 0."""
    command = [sys.executable, "-m", "django", "idem", "metrics", "--serve", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, env={**os.environ, **environment}) as process:
        try:
            eventually(lambda: "ledger_up 1.0" in _try(port), "the exporter answers", within=30)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0


def _try(port: int) -> str:
    try:
        return scraped(port)
    except OSError:
        return ""


def test_what_children_count_is_scraped_also_after_they_were_killed(
    own_site: Site, key: str, tmp_path: Path
) -> None:
    site, port = own_site, free_port()
    worker = site.worker("counting", **TOLD, **{DIRECTORY: str(tmp_path)})
    name = tasks.returning.name
    try:
        worker.start()
        with exporter(port, worker.environment):
            for number in range(3):
                site.send(tasks.returning, f"{key}{number}")
                site.rows.wait_for(f"{key}{number}", State.SUCCEEDED)
            line = f'idempotent_tasks_completions_total{{task="{name}"}} 3.0'
            eventually(lambda: line in scraped(port), "it is counted", within=10)
            for child in worker.children():
                os.kill(child, signal.SIGKILL)
            site.send(tasks.returning, f"{key}4")
            site.rows.wait_for(f"{key}4", State.SUCCEEDED)
            line = f'idempotent_tasks_run_seconds_count{{task="{name}"}} 4.0'
            eventually(lambda: line in scraped(port), "it is counted", within=10)
    finally:
        worker.kill()
    assert len(list(tmp_path.glob("counter_*.db"))) > 1
