"""What outlives a worker process: the queue, and what bodies did outside the database."""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from django.db import connections
from kombu.utils import json as wire

#: How a process ends that dies where it was told to, and one in which something unexpected happened.
DEAD, BROKEN = 99, 98
#: Seconds after which a process has hung, and is ended with a look at where.
LONGEST = 30.0


@dataclass
class Parcel:
    """A message on the queue."""

    name: str
    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any]
    taken: bool = False
    redelivered: bool = False

    @property
    def comes_later(self) -> bool:
        """Whether it was sent with a delay."""
        return bool(self.options.get("countdown") or self.options.get("eta"))

    @property
    def request(self) -> dict[str, Any]:
        """The request that Celery makes of it."""
        task_id = self.options["task_id"]
        return {
            "id": task_id,
            "task": self.name,
            "root_id": self.options.get("root_id") or task_id,
            "parent_id": self.options.get("parent_id"),
            "retries": self.options.get("retries") or 0,
            "delivery_info": {"redelivered": self.redelivered, "routing_key": "celery", "exchange": ""},
            "hostname": "celery@crash",
            **(self.options.get("headers") or {}),
        }


@dataclass
class World:
    """A broker that keeps messages until they are acknowledged, and a record of outside effects.

    Everything that happens to it is an event, told as JSON text: what cannot be told is not sent. A
    process that is going to die tells them through a pipe, as it would over a network.
    """

    parcels: dict[int, Parcel] = field(default_factory=dict)
    started: list[dict[str, Any]] = field(default_factory=list)
    #: How Celery took each delivery: the class of its error, if any, and whether the process ends by it.
    ended: list[dict[str, Any]] = field(default_factory=list)
    #: What a process had to say to the test itself.
    notes: list[dict[str, Any]] = field(default_factory=list)
    told: int = 0
    #: The event after which the process that tells it dies.
    deadly: str = ""
    _pipe: int | None = None

    def tell(self, event: str, **facts: Any) -> None:
        """Let something happen outside this process."""
        text = wire.dumps({"event": event, **facts})
        if self._pipe is not None:
            os.write(self._pipe, text.encode() + b"\n")
        self._happen(text)
        if event == self.deadly:
            die()

    def _happen(self, text: str) -> None:
        facts = wire.loads(text)
        self.told += 1
        match facts.pop("event"):
            case "sent":
                self.parcels[self.told] = Parcel(**facts)
            case "taken":
                self.parcels[facts["number"]].taken = True
            case "acknowledged":
                del self.parcels[facts["number"]]
            case "requeued":
                self._requeue(facts["number"])
            case "started":
                self.started.append(facts)
            case "ended":
                self.ended.append(facts)
            case "noted":
                self.notes.append(facts)

    def _requeue(self, number: int) -> None:
        parcel = self.parcels.pop(number)
        self.parcels[self.told] = Parcel(
            parcel.name, parcel.args, parcel.kwargs, parcel.options, redelivered=True
        )

    def take(self) -> tuple[int, Parcel] | None:
        """Take the first message that is there now."""
        for number, parcel in self.parcels.items():
            if not parcel.taken and not parcel.comes_later:
                self.tell("taken", number=number)
                return number, parcel
        return None

    def lose_worker(self) -> None:
        """Put back what was taken and not acknowledged, as a broker does whose client is gone."""
        for number in [number for number, parcel in self.parcels.items() if parcel.taken]:
            self.tell("requeued", number=number)

    def lose_messages(self) -> None:
        """Forget the queue, as a broker does that is set up anew."""
        for number in list(self.parcels):
            self.tell("acknowledged", number=number)

    def let_time_pass(self) -> None:
        """Let messages arrive that were sent with a delay."""
        for parcel in self.parcels.values():
            parcel.options = {
                name: value for name, value in parcel.options.items() if name not in {"countdown", "eta"}
            }

    def run_mortal(self, work: Callable[[], object]) -> tuple[int, int]:
        """Run ``work`` in a process of its own; its exit code and its pid. What it told has happened."""
        _leave_sqlite()
        reading, writing = os.pipe()
        pid = _fork()
        if pid == 0:
            os.close(reading)
            self._pipe = writing
            _end_after(work)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            for line in pipe:
                self._happen(line)
        _, status = os.waitpid(pid, 0)
        return os.waitstatus_to_exitcode(status), pid

    def starts(self, task_id: str) -> list[dict[str, Any]]:
        """List the runs of a call's body."""
        return [start for start in self.started if start["task_id"] == task_id]

    def __str__(self) -> str:
        return json.dumps({"queue": [str(parcel) for parcel in self.parcels.values()], "runs": self.started})


def die() -> NoReturn:
    """End this process: nothing runs after it, the kernel closes what it had open."""
    os._exit(DEAD)


def _fork() -> int:
    with warnings.catch_warnings():
        # The heartbeat's thread of this process does not exist in the child, and the package knows it.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _leave_sqlite() -> None:
    """Let go of SQLite files, whose locks a fork confuses."""
    for connection in connections.all(initialized_only=True):
        if connection.vendor == "sqlite":
            connection.close()


def _end_after(work: Callable[[], object]) -> NoReturn:
    code = BROKEN
    faulthandler.dump_traceback_later(LONGEST, exit=True, file=2)
    try:
        with _own_connections():
            work()
        code = 0
    except BaseException:  # noqa: BLE001  nothing of this process may get back into pytest
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(code)


@contextmanager
def _own_connections() -> Iterator[None]:
    """Leave the parent's connections alone: a child that used or closed them would end its session."""
    inherited = []
    for connection in connections.all(initialized_only=True):
        inherited.append(connection.connection)
        connection.connection = None
    yield
    inherited.clear()
