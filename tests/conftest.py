"""What all tests share."""

from __future__ import annotations

from collections.abc import Generator
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from celery._state import get_current_app
from kombu.transport import memory

from tests.support.ledger.databases import template
from tests.support.ledger.quick import emptied_by_delete
from tests.support.workers.processes import Worker

__all__ = ["emptied_by_delete", "template"]

# Made first: else the default app is the first that any test happens to import, with other tasks each time.
get_current_app()
# The shipped contract explains its failures as the tests here do; it must be said before its first import.
pytest.register_assert_rewrite("django_idempotent_tasks.testing.contract")

#: Real brokers and connections, beats, races, deaths at every line, the model, mutants, mypy, the doctor's
#: projects, the pages' examples: minutes in all.
THOROUGH = {
    "admin",
    "admin/themes",
    "beat",
    "crashes",
    "crashes/model",
    "docs",
    "ledger/stores",
    "ledger/stores/mutants",
    "operations",
    "operations/doctor",
    "races",
    "results",
    "running/batches",
    "running/connections",
    "running/delivery",
    "sending",
}
#: Every test there starts processes.
PROCESS = {
    "deaths/atomic",
    "deaths/leased",
    "processes/canvas",
    "processes/failing",
    "processes/outages",
    "processes/pools",
    "processes/prefork",
    "processes/programs",
    "processes/reserved",
}
#: In this process connections outlive tests: which statements one has prepared would depend on their order.
NEVER = 10**9
BY_FOLDER = {**dict.fromkeys(THOROUGH, "thorough"), **dict.fromkeys(PROCESS, "process")}
HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no test that its mark leaves out: collecting takes half the time then, or less."""
    mark, wanted = _mark_of(collection_path), config.option.markexpr.split(" and ")
    if mark and f"not {mark}" in wanted:
        return True
    return True if "process" in wanted and not _starts_processes(collection_path, mark) else None


def _starts_processes(path: Path, mark: str | None) -> bool:
    return mark == "process" or path.suffix != ".py" or "mark.process" in path.read_text("utf-8")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the inner loop short."""
    for item in items:
        if mark := _mark_of(item.path):
            item.add_marker(mark)


def pytest_collection_finish() -> None:
    """Let each app keep its tasks to itself, and let none of those that tests import be the current one.

    Each new app would make the tasks of all others, and the last one made would be taken for the project's.
    """
    state: Any = import_module("celery._state")
    state._tls.current_app = None
    shared = state._on_app_finalizers
    shared -= {each for each in shared if getattr(each, "__qualname__", "").startswith("Celery.task.")}


def pytest_runtest_setup() -> None:
    """Begin as a new process does: what one remembers would change what another test sends and counts.

    All apps of a process share the memory broker, and a sweeper leaves a full queue alone. A relay that has
    met a broker that is away sends nothing for seconds, and shadow mode rests as long; where duplicates are
    expected, a call costs another statement; a pause is known for seconds longer than its row is there.
    """
    memory.Channel.queues.clear()
    _remembered("ledger.guesses")._seen.clear()
    _remembered("ledger.stores.prepared").OFTEN = NEVER
    _remembered("ledger.pauses")._known.pauses = []
    _remembered("running.shadow")._rests_until = 0.0
    relay = _remembered("messages.relay")
    relay.relay.forget()
    # A forked child leaves its parent's connections open; here they are this process's own.
    for line in chain.from_iterable(relay._of_the_parent):
        relay.collapse(line[1])
    relay._of_the_parent.clear()


def _remembered(module: str) -> Any:
    return import_module(f"django_idempotent_tasks.{module}")


def _mark_of(path: Path) -> str | None:
    inside = path.parent.is_relative_to(HERE) and path.suffix == ".py"
    return BY_FOLDER.get(path.parent.relative_to(HERE).as_posix()) if inside else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the ends of the workers' logs under a failed test.

    Halves of surrogate pairs in what a test has logged are replaced: pytest-xdist carries UTF-8 alone.
    """
    report = yield
    if report.failed and report.when == "call":
        for worker in Worker.living:
            report.sections.append((f"log of {worker.name}", worker.last_words()))
    report.sections = [(title, text.encode(errors="replace").decode()) for title, text in report.sections]
    return report
