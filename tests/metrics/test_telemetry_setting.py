"""``TELEMETRY`` connects what it names and nothing else; without it nothing of it is imported."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from django_idempotent_tasks import signals
from django_idempotent_tasks.conf import project, settings
from django_idempotent_tasks.exceptions import ConfigurationError
from django_idempotent_tasks.metrics.connect import _UID, connect
from tests.metrics.heard import disconnect

IMPORTED = """
import sys, django
django.setup()
from django_idempotent_tasks.signals import attempt_started
print(sorted(name for name in sys.modules if name.startswith("django_idempotent_tasks.metrics.")))
print("prometheus_client" in sys.modules, len(attempt_started.receivers))
"""


def test_without_it_no_library_is_imported_and_nobody_listens() -> None:
    printed = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert printed.stdout.splitlines() == ["['django_idempotent_tasks.metrics.connect']", "False 0"]


def test_each_name_connects_its_listeners(settings: Any) -> None:
    pytest.importorskip("prometheus_client")
    settings.IDEMPOTENT_TASKS = {"TELEMETRY": "prometheus"}
    before = len(signals.attempt_started.receivers)
    try:
        connect()
        connect()
        assert len(signals.attempt_started.receivers) == before + 1
    finally:
        disconnect(f"{_UID}.prometheus")


@pytest.mark.parametrize(
    ("value", "words"),
    [("statsd", "must be one of 'prometheus'"), ([7], "must be one of"), (True, "must be a list of")],
)
def test_a_wrong_name_is_refused_with_those_that_are_known(value: Any, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        project.parse({"TELEMETRY": value})


def test_a_library_that_is_missing_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(project, "find_spec", lambda _name: None)
    with pytest.raises(ConfigurationError, match="pip install opentelemetry-api"):
        project.parse({"TELEMETRY": ["opentelemetry"]})
    settings.IDEMPOTENT_TASKS = {"TELEMETRY": ["prometheus"]}
    connect()  # the check E002 says it


def test_it_is_a_list_without_doubles() -> None:
    assert settings().telemetry == ()
