"""What canvases are made of, in each mode; a worker has ``--include tests.processes.canvas.tasks``."""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import Callable
from functools import wraps
from typing import Any

from celery import chord, signals
from celery.backends.redis import RedisBackend
from celery.exceptions import Ignore
from django.db import connection

from django_idempotent_tasks import IdempotentTask
from tests.sample.celery import app
from tests.sample.tasks import guarded, journal, write_effect
from tests.support.waiting import eventually

MODES: dict[str, dict[str, Any]] = {"leased": {}, "atomic": {"mode": "atomic"}, "reserve": {"reserve": True}}
#: A message that meets its own running copy comes back so much later.
LEASE = 8


class Doubled(IdempotentTask):
    """Each of its messages is sent twice, as by a broker that delivers again what it had delivered."""

    abstract = True

    def apply_async(self, *args: Any, **options: Any) -> Any:
        """Send it, and once more under the same id."""
        first = super().apply_async(*args, **options)
        return super().apply_async(*args, **{**options, "task_id": first.id})


def in_each_mode(function: Callable[..., Any], **options: Any) -> Any:
    """A task in each mode, by the mode's name; ``function`` gives its result."""
    return {
        mode: guarded(
            name=f"canvas.{mode}.{function.__name__}",
            **{"lease": LEASE, "max_crashes": 1000, "max_retries": 0, **extra, **options},
        )(_body(function))
        for mode, extra in MODES.items()
    }


def _body(function: Callable[..., Any]) -> Callable[..., Any]:
    """Do the work and write its effect: in the transaction that completes the key."""

    @wraps(function)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        key = str(self.idempotency.key).removeprefix("key=")
        if self.idempotency_policy.mode == "atomic":
            write_effect(self, key)
            return function(self, *args, **kwargs)
        value = function(self, *args, **kwargs)
        with self.idempotency.complete() as done:
            write_effect(self, key)
            done.result = value
        return value

    run.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]  # Celery looks there
    return run


@app.task(name="canvas.start")
def start(sig: Any) -> None:
    """Send a canvas from here, with this worker's result backend."""
    app.signature(sig).apply_async()


@in_each_mode
def part(self: Any, key: str) -> str:  # noqa: ARG001
    """Return the key."""
    return key


@in_each_mode
def slow_part(self: Any, key: str) -> str:  # noqa: ARG001
    """Return the key after a while."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(0.02)")
    return key


@in_each_mode
def gated(self: Any, key: str) -> str:  # noqa: ARG001
    """Return the key once the gate is open."""
    journal().write("gated", key)
    journal().visit(key)
    return key


def again(self: Any, key: str) -> str:  # noqa: ARG001
    """Return the key, of a message that is sent twice."""
    return key


doubled = in_each_mode(again, base=Doubled)


@in_each_mode
def collect(self: Any, values: Any, key: str) -> Any:  # noqa: ARG001
    """End a canvas: tell what came before."""
    journal().write("collected", key, values=values)
    return values


def fail(self: Any, key: str) -> None:  # noqa: ARG001
    """Fail."""
    raise ValueError(key)


failing = in_each_mode(fail, on_failed="block")


@in_each_mode
def heard(self: Any, call: str, key: str) -> None:  # noqa: ARG001
    """Tell that an error was heard of."""
    result = app.AsyncResult(call)
    eventually(result.ready, f"the error of {call} is stored")
    journal().write("heard", key, error=repr(result.result))


@in_each_mode
def ignoring(self: Any, key: str) -> None:  # noqa: ARG001
    """End without a value."""
    raise Ignore


@in_each_mode
def dying(self: Any, key: str) -> str:  # noqa: ARG001
    """Die in the first start, as when the kernel is out of memory."""
    _die_once("dying", key)
    return key


def _die_once(where: str, key: str) -> None:
    if not journal().read(where, key):
        journal().write(where, key)
        os.kill(os.getpid(), signal.SIGKILL)


# -- those that are replaced: their effect is written without complete() --


def replaced_in_each_mode(function: Callable[..., Any]) -> Any:
    """The same for a body that leaves its place to another."""

    def run(self: Any, key: str, **kwargs: Any) -> Any:
        write_effect(self, key)
        return self.replace(function(self, key, **kwargs))

    return {
        mode: guarded(name=f"canvas.{mode}.{function.__name__}", lease=LEASE, max_crashes=1000, **extra)(run)
        for mode, extra in MODES.items()
    }


def _mode(task: Any) -> str:
    return str(task.name.split(".")[1])


@replaced_in_each_mode
def becomes_part(self: Any, key: str) -> Any:
    """Be replaced by one call."""
    return part[_mode(self)].si(f"{key}-new")


@replaced_in_each_mode
def becomes_chord(self: Any, key: str) -> Any:
    """Be replaced by a chord."""
    mode = _mode(self)
    return chord([part[mode].si(f"{key}-1"), part[mode].si(f"{key}-2")], collect[mode].s(key=f"{key}-new"))


@replaced_in_each_mode
def becomes_chain(self: Any, key: str) -> Any:
    """Be replaced by a chain of which the last is replaced in turn."""
    return part[_mode(self)].si(f"{key}-1") | becomes_part[_mode(self)].si(f"{key}-2")


@replaced_in_each_mode
def circular(self: Any, key: str) -> Any:
    """Be replaced by a chain that begins with the very same work."""
    return self.si(key) | part[_mode(self)].si(f"{key}-new")


@replaced_in_each_mode
def becomes_unsent(self: Any, key: str) -> Any:
    """Be replaced; whoever sends that dies once, just before."""
    return unsent[_mode(self)].si("sent", key=f"{key}-new")


@guarded(name="canvas.paging", lease=LEASE)
def paging(self: Any, key: str, page: int = 1) -> Any:
    """Go on with the next page under the same key."""
    journal().write("page", key, page=page, task_id=self.request.id)
    if page < 3:
        return self.replace(self.si(key, page=page + 1))
    return f"{key} of {page} pages"


# -- deaths inside Celery, after the body --


@in_each_mode
def uncounted(self: Any, key: str) -> str:  # noqa: ARG001
    """Return; its process dies once between the storing of its result and the counting of its part."""
    return key


def _die_before_the_count(backend: Any) -> None:
    count = backend.on_chord_part_return

    def die_or_count(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        if "uncounted" in (request.task or ""):
            _die_once("uncounted", request.args[0])
        return count(self, request, *args, **kwargs)

    backend.on_chord_part_return = die_or_count


@signals.worker_init.connect
def _set_the_traps(**_kwargs: object) -> None:
    signals.before_task_publish.connect(_die_before_sending)
    from django_idempotent_tasks.results import DatabaseBackend  # noqa: PLC0415
    from django_idempotent_tasks.worker import parent  # noqa: PLC0415  these have models

    for backend in (RedisBackend, DatabaseBackend):
        _die_before_the_count(backend)
    parent.REPORT_AGAIN = 8.0  # as long as the dead are taken for living here


@in_each_mode
def unsent(self: Any, values: Any, key: str) -> Any:  # noqa: ARG001
    """End a canvas; whoever sends it dies once, just before."""
    journal().write("collected", key, values=values)
    return values


def _die_before_sending(sender: str = "", body: Any = None, **_kwargs: object) -> None:
    if sender.endswith(".unsent"):
        _die_once("unsent", body[1]["key"])
