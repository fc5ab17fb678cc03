"""The guarded tasks of the crash tests and the worker that runs them, without a broker between them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NoReturn

from celery import Celery
from celery.app.trace import build_tracer
from celery.exceptions import Reject
from celery.result import AsyncResult
from kombu import Producer

from django_idempotent_tasks import IdempotentTask, PermanentError
from django_idempotent_tasks.conf import settings
from django_idempotent_tasks.running import heartbeat
from tests.crashes.world import Parcel, World
from tests.support.waiting import eventually
from tests.support.wire import Wire, is_stamped

LEASE = 60


class Shop(Celery):
    """An app whose messages go to a :class:`World`."""

    world = World()

    def send_task(  # type: ignore[override]  # the options that are used here
        self, name: str, args: Any = None, kwargs: Any = None, **options: Any
    ) -> AsyncResult[Any]:
        if is_stamped(options):
            return super().send_task(name, args, kwargs, **options)
        kept = {key: value for key, value in options.items() if value is not None and key not in _PASSING}
        self.world.tell("sent", name=name, args=list(args or ()), kwargs=dict(kwargs or {}), options=kept)
        return self.AsyncResult(options["task_id"])

    def producer_or_acquire(self, producer: Any = None) -> Any:
        """What a message that was stamped before is published with."""
        stored = isinstance(producer, Producer)
        return nullcontext(Wire(self.send_task)) if stored else super().producer_or_acquire(producer)


#: Options of one sending that are not data.
_PASSING = {"connection", "producer", "add_to_parent", "retry", "app", "task_type", "result_cls"}

app = Shop("tests.crashes", set_as_current=False, broker="memory://")


def guarded(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a guarded task of these tests; ``key`` is its argument."""
    defaults = {"base": IdempotentTask, "bind": True, "key": "key", "lease": LEASE, "on_store_down": "raise"}
    decorate: Callable[[Callable[..., Any]], Any] = app.task(**{**defaults, **options})
    return decorate


def charge(task: Any, key: str) -> None:
    """Cause an effect outside the database, with the key that a provider would recognise."""
    now = task.idempotency
    if task.idempotency_policy.mode == "leased":
        # Which line is the n-th of a later delivery depends on what the heart's thread has seen of this one.
        eventually(lambda: heartbeat._heart._wakes is not None, "the heart knows of this lease", every=0.002)
    task.app.world.tell(
        "started",
        key=key,
        task_id=task.request.id,
        token=now.token,
        attempt=now.attempt,
        downstream=now.downstream_key("charge"),
    )


def write_effect(task: Any, key: str) -> dict[str, Any]:
    """Write one effect; what a result says about it."""
    from tests.sample.models import Effect  # noqa: PLC0415  this module is imported before Django is set up

    now = task.idempotency
    Effect.objects.using(settings().database).create(key=key, attempt=now.attempt, token=now.token)
    return {"key": key, "charged": now.downstream_key("charge")}


def complete(task: Any, key: str) -> dict[str, Any]:
    """Write an effect and complete the key in one transaction; its result."""
    with task.idempotency.complete() as done:
        done.result = write_effect(task, key)
    task.app.world.tell("completed", key=key)
    return dict(done.result)


@guarded()
def completing(self: Any, key: str) -> dict[str, Any]:
    """Charge, then write an effect and complete the key in one transaction."""
    charge(self, key)
    return complete(self, key)


@guarded()
def returning(self: Any, key: str) -> dict[str, Any]:
    """Charge, and let the return value complete the key."""
    charge(self, key)
    return {"key": key, "charged": self.idempotency.downstream_key("charge")}


@guarded(max_retries=3)
def retrying(self: Any, key: str) -> dict[str, Any]:
    """Ask for a retry once, then do as :func:`completing`."""
    charge(self, key)
    if self.request.retries == 0:
        raise self.retry(countdown=0)
    return complete(self, key)


@guarded()
def refusing(self: Any, key: str) -> NoReturn:
    """Fail for good."""
    charge(self, key)
    raise PermanentError("no")


@guarded()
def stepping(self: Any, key: str) -> dict[str, Any]:
    """Take two steps that write an effect each and one outside the database; the return value completes."""
    charge(self, key)
    take = self.idempotency.step
    take("first", write_effect, self, key)
    self.app.world.tell("stepped", key=key)
    asked = take("ask", self.idempotency.downstream_key, "ask", external=True)
    return {"asked": asked, **take("second", write_effect, self, key)}


@guarded(on_duplicate="follow_up")
def following(self: Any, key: str) -> dict[str, Any]:
    """In the first run of all, ask for another one: it is to follow this one, once."""
    from tests.sample.models import Effect  # noqa: PLC0415  as above

    if not Effect.objects.using(settings().database).filter(key=key).exists():
        self.submit(kwargs={"key": key})
    return complete(self, key)


@guarded(mode="atomic")
def committing(self: Any, key: str) -> dict[str, Any]:
    """Charge, and write an effect in the transaction that completes the key."""
    charge(self, key)
    return write_effect(self, key)


@guarded(mode="atomic", max_retries=3)
def recommitting(self: Any, key: str) -> dict[str, Any]:
    """Write an effect and ask for a retry, once; then do as :func:`committing`."""
    charge(self, key)
    result = write_effect(self, key)
    if self.request.retries == 0:
        raise self.retry(countdown=0)
    return result


@guarded(mode="atomic")
def undoing(self: Any, key: str) -> NoReturn:
    """Write an effect and fail for good."""
    charge(self, key)
    write_effect(self, key)
    raise PermanentError("no")


TASKS = (completing, returning, retrying, refusing, stepping, following, committing, recommitting, undoing)


class Worker:
    """Takes messages and runs them as Celery does: its own tracer, and its rules of acknowledging."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._tracers = {task.name: build_tracer(task.name, task, app=app) for task in TASKS}

    def work(self) -> None:
        """Work until the queue is empty, or the process has to end."""
        while taken := self.world.take():
            if not self._deliver(*taken):
                return

    def _deliver(self, number: int, parcel: Parcel) -> bool:
        """Run one message; whether the process goes on."""
        request = parcel.request
        try:
            traced = self._tracers[parcel.name](request["id"], parcel.args, parcel.kwargs, request)
        except BaseException as error:  # noqa: BLE001  what gets past Celery's tracer ends the process
            self._tell_end(parcel, error, is_exit=True)
            return False
        seen: Any = traced.info.retval if traced.info else None
        put_back = isinstance(seen, Reject) and bool(getattr(seen, "requeue", False))
        self._tell_end(parcel, seen, is_exit=False)
        self.world.tell("requeued" if put_back else "acknowledged", number=number)
        return True

    def _tell_end(self, parcel: Parcel, error: BaseException | None, *, is_exit: bool) -> None:
        name = type(error).__name__ if error is not None else None
        self.world.tell("ended", task_id=parcel.options["task_id"], error=name, is_exit=is_exit)
