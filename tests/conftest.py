"""What all tests share."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.workers.processes import Worker

# The shipped contract explains its failures as the tests here do; it must be said before its first import.
pytest.register_assert_rewrite("django_idempotent_tasks.testing.contract")

#: Real brokers and connections, beats, races, deaths at every line, the model, mutants, mypy: minutes in all.
THOROUGH = {
    "admin",
    "admin/themes",
    "beat",
    "crashes",
    "crashes/model",
    "ledger/stores",
    "ledger/stores/mutants",
    "operations",
    "races",
    "results",
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
BY_FOLDER = {**dict.fromkeys(THOROUGH, "thorough"), **dict.fromkeys(PROCESS, "process")}
HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no test that its folder's mark leaves out: collecting takes half the time then."""
    mark = _mark_of(collection_path)
    return True if mark and f"not {mark}" in config.option.markexpr.split(" and ") else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the inner loop short."""
    for item in items:
        if mark := _mark_of(item.path):
            item.add_marker(mark)


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
