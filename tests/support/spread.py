"""Spreads tests over the processes of pytest-xdist: neighbours share a process, and the heaviest come first.

What tests with workers share in a folder (a database, a broker's place, living workers) is built again in
each process, and each time that a process comes back to the folder. pytest-xdist itself orders files by their
number of tests, which leads a process through all folders in turn, and leaves the longest for the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).resolve().parents[2]
#: Folders whose tests share what takes long to build, and how many other tests take as long as one of theirs.
SHARING = {
    "tests/deaths": 150,
    "tests/deaths/atomic": 40,
    "tests/example": 60,
    "tests/example/registrations": 60,
    "tests/processes/adopting": 80,
    "tests/processes/canvas": 4,
    "tests/processes/failing": 30,
    "tests/processes/outages": 60,
    "tests/processes/plain_celery": 20,
    "tests/processes/pools": 12,
    "tests/processes/prefork": 15,
    "tests/processes/programs": 50,
    "tests/processes/reserved": 50,
    "tests/services/interop": 80,
    "tests/services/pgbouncer": 60,
    "tests/services/rabbitmq": 60,
}
#: Those of them where most of the time goes into what they share: one process takes the whole folder.
WHOLE = {"tests/processes/canvas", "tests/processes/failing", "tests/processes/pools"}
#: A file that is much longer than any other, and each class of it stands alone.
BY_CLASS = {"tests/ledger/stores/test_contract.py"}


def part_of(test: str) -> str:
    """What is given to one process as a whole, by the id of one of its tests."""
    file = test.partition("::")[0]
    if file in BY_CLASS:
        return test.rpartition("::")[0]
    return f"{folder_of(file)}/*" if folder_of(file) in WHOLE else file


def next_part(waiting: Mapping[str, int], last: str, busy: Counter[str]) -> str:
    """Choose a part for a process, of those that wait with their numbers of tests, after its ``last`` one.

    The process stays in a folder that shares while parts wait there, and then goes where most work is left
    for each process that is ``busy`` there. The heaviest part comes first, so that none is left for the end.
    """
    weights = {part: tests * SHARING.get(folder_of(part), 1) for part, tests in waiting.items()}
    left = Counter[str]()
    for part, weight in weights.items():
        left[_place_of(part)] += weight
    place = _place_of(last)
    if place not in left:
        place = max(left, key=lambda each: left[each] / (1 + busy[each]))
    return max((part for part in waiting if _place_of(part) == place), key=weights.__getitem__)


def folder_of(part: str) -> str:
    """The folder of a file, of a class or of a test."""
    return part.partition("::")[0].rpartition("/")[0]


def _place_of(part: str) -> str:
    return folder_of(part) if folder_of(part) in SHARING else part


class Neighbours(LoadFileScheduling):
    """Gives a process the next file where what it shares still lives."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._last: dict[Any, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        return part_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        waiting = {part: len(tests) for part, tests in self.workqueue.items()}
        busy = Counter(_place_of(part) for other, part in self._last.items() if other is not node)
        self._last[node] = next_part(waiting, self._last.get(node, ""), busy)
        self.workqueue.move_to_end(self._last[node], last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Neighbours | None:
    """Spread tests so where ``--dist loadfile`` is asked for."""
    return Neighbours(config, log) if config.getvalue("dist") == "loadfile" else None
