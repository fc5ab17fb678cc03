"""Guarded tasks that end in every way a body can end: retries, exits, strange results, strange errors."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import cycle
from typing import Any, NoReturn

from celery import current_task
from celery.exceptions import Ignore, Reject

from tests.sample.celery import app
from tests.sample.tasks import begin, guarded, write_effect


class Busy(Exception):
    """Somebody else was not ready."""


class Unprintable(Exception):
    """Neither str() nor repr() works on it, and pickle does not either."""

    def __init__(self) -> None:
        super().__init__(lambda: None)

    def __str__(self) -> str:
        raise RuntimeError("str")

    def __repr__(self) -> str:
        raise RuntimeError("repr")


class Leaving(Exception):
    """Whoever reads it ends the process."""

    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__

    def __reduce__(self) -> str:
        raise SystemExit(3)


class Needy(Exception):
    """It cannot be made again from its arguments, so pickle cannot load it."""

    def __init__(self, first: str, *, second: int) -> None:
        super().__init__(f"{first} {second}")


@guarded(max_retries=5, default_retry_delay=0)
def retried(self: Any, key: str, how: str = "self", *, gated: bool = False) -> dict[str, Any]:
    """Ask for a retry twice, then write an effect."""
    begin(self, key, gated=gated)
    if self.request.retries < 2:
        _ask_for_retry(self, key, how)
        if how == "no throw":
            return {"result of a retried attempt": True}
    return write_effect(self, key)


def _ask_for_retry(task: Any, key: str, how: str) -> None:
    match how:
        case "current task":
            current_task.retry(countdown=0)
        case "registry":
            app.tasks[task.name].retry(countdown=0)
        case "new arguments":
            task.retry(args=(f"{key} (changed)", how), countdown=0)
        case "no throw":
            task.retry(countdown=0, throw=False)
        case "with cause":
            task.retry(exc=Busy("not yet"), countdown=0)
        case _:
            task.retry(countdown=0)


@guarded(autoretry_for=(Busy,), max_retries=3, default_retry_delay=0)
def autoretried(self: Any, key: str) -> dict[str, Any]:
    """Fail twice in a way that Celery retries, then write an effect."""
    begin(self, key)
    if self.request.retries < 2:
        raise Busy
    return write_effect(self, key)


@guarded(autoretry_for=(Busy,), max_retries=2, default_retry_delay=0)
def hopeless(self: Any, key: str) -> None:
    """Fail each time."""
    begin(self, key)
    raise Busy


@guarded()
def postponed(self: Any, key: str) -> None:
    """Ask for a retry in two seconds, then write an effect."""
    begin(self, key)
    if self.idempotency.attempt == 1:
        raise self.retry(countdown=2)
    write_effect(self, key)


@guarded()
def refusing(self: Any, key: str, payload: Any) -> None:  # noqa: ARG001
    """Fail, whatever the arguments."""
    begin(self, key)
    raise ValueError("no")


@guarded()
def leading(self: Any, key: str) -> None:
    """Complete the key and then die, before Celery can send what follows in the chain."""
    begin(self, key)
    with self.idempotency.complete() as done:
        done.result = write_effect(self, key)
    os.kill(os.getpid(), signal.SIGKILL)


@guarded(key="before")
def following(self: Any, before: dict[str, Any]) -> None:
    """Come after ``leading`` in a chain."""
    begin(self, f"after {before['key']}")


@guarded()
def ending(self: Any, key: str, how: str) -> None:
    """End the first attempt with the named error, a later one well."""
    begin(self, key)
    if self.idempotency.attempt == 1:
        error = ERRORS[how]()
        raise error


def _end_of_recursion() -> NoReturn:
    _end_of_recursion()


def _chained(depth: int) -> Exception:
    error: Exception = ValueError("first")
    for number in range(depth):
        outer = ValueError(str(number))
        outer.__cause__ = error
        error = outer
    return error


def _noted() -> Exception:
    error = ValueError("noted")
    vars(error)["__notes__"] = cycle(["again"])
    return error


#: What a body may raise, by name.
ERRORS: dict[str, Callable[[], BaseException]] = {
    "exit": lambda: SystemExit(3),
    "interrupt": lambda: SystemExit("stop"),
    "memory": MemoryError,
    "ignore": Ignore,
    "reject": lambda: Reject("no", requeue=False),
    "requeue": lambda: Reject("later", requeue=True),
    "unprintable": Unprintable,
    "needy": lambda: Needy("a", second=1),
    "local": lambda: type("Local", (Exception,), {})("of a class that nobody can import"),
    "recursion": _end_of_recursion,
    "nul": lambda: ValueError("a\0b \ud800 \U0001f600"),
    "endless chain": lambda: _chained(300),
    "leaving": Leaving,
    "nameless": type("Nameless", (Exception,), {"__module__": None}),
    "endless notes": _noted,
    "long message": lambda: ValueError("x" * 30_000),
}


def nested(depth: int) -> Any:
    """A list in a list in a list."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


#: Results by name: the first ones are storable and must come back as they are.
STORABLE: dict[str, Any] = {
    "none": None,
    "zero": 0,
    "false": False,
    "empty text": "",
    "empty list": [],
    "empty dict": {},
    "tuple": (1, 2),
    "text None": "None",
    "nul": "a\0b",
    "surrogate": "\ud800",
    "deep": nested(100),
    "big integer": 2**70,
}
#: These are not kept, and a replay says so; made when they are wanted, since each worker imports this module.
UNSTORABLE: dict[str, Callable[[], Any]] = {
    "object": object,
    "set of objects": lambda: {object()},
    "too large": lambda: "x" * 70_000,
    "too deep": lambda: nested(100_000),
}


@guarded(on_duplicate="replay")
def answering(self: Any, key: str, what: str, payload: Any = None) -> Any:  # noqa: ARG001
    """Return the named value."""
    begin(self, key)
    return UNSTORABLE[what]() if what in UNSTORABLE else STORABLE[what]


@guarded()
def swallowing(self: Any, key: str, payload: Any, gated: bool = False) -> int:
    """Take any argument."""
    begin(self, key, gated=gated)
    write_effect(self, key)
    return len(str(payload))
