"""Django's own tests of task backends, run against ours: those of the interface that a project sees.

They are in Django's source alone: ``DJANGO_TESTS`` names its folder ``tests``. Left out is what Django's two
backends have alone: their class, that they cannot read results or defer, the list of the dummy; and two
coroutines that read a result synchronously, which Django refuses to any backend with a database.
"""

from __future__ import annotations

import os
import sys
import unittest
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.backend.conftest import Place
from tests.support.deliveries import ALIASES, APPS

if TYPE_CHECKING:
    from pytest_django import Settings

SOURCE = os.environ.get("DJANGO_TESTS", "")

pytestmark = [
    pytest.mark.skipif(not SOURCE, reason="DJANGO_TESTS names no folder of Django's tests"),
    pytest.mark.django_db(transaction=True, databases=ALIASES, available_apps=APPS),
]

#: Of Django's backends that run at once, in this process: so does ours in eager mode.
EAGER = (
    "test_enqueue_task",
    "test_enqueue_task_async",
    "test_catches_exception",
    "test_complex_exception",
    "test_complex_return_value",
    "test_result",
    "test_result_async",
    "test_enqueue_logs",
    "test_failed_logs",
    "test_successful_task_no_none_in_logs",
    "test_takes_context",
    "test_context",
)

#: Of Django's backends that keep what was enqueued.
KEPT = (
    "test_task_decorator",
    "test_enqueue_with_invalid_argument",
    "test_aenqueue_with_invalid_argument",
    "test_using_priority",
    "test_using_queue_name",
    "test_using_run_after",
    "test_using_unknown_backend",
    "test_using_missing_backend",
    "test_using_creates_new_instance",
    "test_chained_using",
    "test_naive_datetime",
    "test_invalid_priority",
    "test_call_task",
    "test_call_task_async",
    "test_call_async_task",
    "test_call_async_task_sync",
    "test_get_result",
    "test_get_result_async",
    "test_get_incorrect_result",
    "test_get_incorrect_result_async",
    "test_invalid_function",
    "test_name",
    "test_module_path",
    "test_no_backends",
    "test_takes_context_without_taking_context",
)


@pytest.fixture
def djangos(place: Place, settings: Settings, alias: str) -> Iterator[Any]:
    """Make a test case of Django's with our backend."""
    assert place.sent == []
    sys.path.insert(0, SOURCE)
    from django.test import override_settings  # noqa: PLC0415
    from tasks import (  # type: ignore[import-not-found]  # noqa: PLC0415  of Django's source
        test_immediate_backend,
        test_tasks,
    )

    ours = {**settings.TASKS["default"], "QUEUES": ["default", "queue_1"]}

    def case(module: str, name: str) -> Any:
        base: Any = {
            "immediate": test_immediate_backend.ImmediateBackendTestCase,
            "tasks": test_tasks.TaskTestCase,
        }[module]
        kind = type(base.__name__, (base,), {"setUp": lambda _self: None, "databases": {"default", alias}})
        missing = {"BACKEND": "does.not.exist"}
        return override_settings(TASKS={"default": ours, "missing": missing})(kind)(name)

    yield case
    sys.path.remove(SOURCE)


def _passes(case: Any) -> None:
    result = unittest.TestResult()
    unittest.TestSuite([case]).run(result)
    assert result.wasSuccessful(), "\n".join(text for _, text in [*result.errors, *result.failures])
    assert not result.skipped


@pytest.mark.parametrize("name", EAGER)
def test_what_runs_at_once(djangos: Any, place: Place, name: str) -> None:
    place.till.conf.task_always_eager = True
    _passes(djangos("immediate", name))


@pytest.mark.parametrize("name", KEPT)
def test_what_is_enqueued_and_looked_up(djangos: Any, name: str) -> None:
    _passes(djangos("tasks", name))
