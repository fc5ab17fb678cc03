"""What outlives a worker process: the queue, and what bodies did outside the database."""

from __future__ import annotations

import faulthandler
import gc
import json
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from django.db import connections
from kombu.utils import json as wire

from tests.support.ledger.backends import wait_for_rollbacks
from tests.support.workers.processes import _die_with_parent as die_with_parent

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
    #: The completions that bodies have seen.
    completed: list[dict[str, Any]] = field(default_factory=list)
    #: The steps that bodies have seen the end of.
    stepped: list[dict[str, Any]] = field(default_factory=list)
    #: How Celery took each delivery: the class of its error, if any, and whether the process ends by it.
    ended: list[dict[str, Any]] = field(default_factory=list)
    #: What a process had to say to the test itself.
    noted: list[dict[str, Any]] = field(default_factory=list)
    told: int = 0
    #: What the process that first tells of an event does next, by the event.
    then: dict[str, Callable[[], object]] = field(default_factory=dict)
    _pipe: int | None = None

    def tell(self, event: str, **facts: Any) -> None:
        """Let something happen outside this process."""
        text = wire.dumps({"event": event, **facts})
        if self._pipe is not None:
            os.write(self._pipe, text.encode() + b"\n")
        self._happen(text)
        act = self.then.pop(event, None)
        if act is not None:
            act()

    def _happen(self, text: str) -> None:
        facts = wire.loads(text)
        self.told += 1
        match facts.pop("event"):
            case "sent":
                self.parcels[self.told] = Parcel(**facts)
            case "taken":
                self._take(facts["number"])
            case "acknowledged":
                self.parcels.pop(facts["number"], None)
            case "requeued":
                self._requeue(facts["number"])
            case record:
                getattr(self, record).append(facts)

    def _take(self, number: int) -> None:
        if number in self.parcels:  # else it went to somebody else, and was acknowledged there
            self.parcels[number].taken = True

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

    def run_mortal(self, work: Callable[[], object]) -> int:
        """Run ``work`` in a process of its own, see :meth:`start_mortal`; its exit code."""
        return self.start_mortal(work).join()

    def start_mortal(self, work: Callable[[], object]) -> Mortal:
        """Start ``work`` in a process of its own; what it tells has happened here once it is joined."""
        _leave_sqlite()
        reading, writing = os.pipe()
        pid = _fork()
        if pid == 0:
            os.close(reading)
            self._pipe = writing
            _end_after(work)
        os.close(writing)
        return Mortal(pid, self, reading)

    def hear(self, reading: int) -> None:
        """Let everything happen that a process has told, until it ends."""
        with os.fdopen(reading) as pipe:
            for line in pipe:
                self._happen(line)

    def __str__(self) -> str:
        return json.dumps({"queue": [str(parcel) for parcel in self.parcels.values()], "runs": self.started})


@dataclass(frozen=True)
class Mortal:
    """A process that may die."""

    pid: int
    world: World
    reading: int

    def join(self) -> int:
        """Wait until it is gone, and what it left open too; its exit code, negative for a signal."""
        self.world.hear(self.reading)
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == DEAD:  # a sweep would pass over a row that its transaction still locks
            wait_for_rollbacks()
        return code

    def wait_until_stopped(self) -> None:
        """Wait until it stands still."""
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def go_on(self) -> int:
        """Let it go on to its end; its exit code."""
        os.kill(self.pid, signal.SIGCONT)
        return self.join()


def die() -> NoReturn:
    """End this process: nothing runs after it, the kernel closes what it had open."""
    os._exit(DEAD)


def stop() -> None:
    """Stand still until somebody lets this process go on."""
    os.kill(os.getpid(), signal.SIGSTOP)


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
    die_with_parent()
    gc.disable()  # it would write to, and so copy, every page that is shared with the parent
    logging.disable()  # pytest would keep the records, they the errors, and those the frames of attempts
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
