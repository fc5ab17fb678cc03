"""Single deliveries, run in this process by Celery's own tracer, and what each of them came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import uuid4

from celery import Celery
from celery.app.trace import build_tracer
from celery.exceptions import Ignore, Reject, Retry
from celery.result import AsyncResult
from kombu import Producer

from django_idempotent_tasks import IdempotentTask
from django_idempotent_tasks.conf import settings
from django_idempotent_tasks.models import AnsweredCall, DuplicateAttempt, IdempotencyKey
from django_idempotent_tasks.states import State
from tests.sample.models import Effect
from tests.support.waiting import eventually
from tests.support.wire import Wire, is_stamped

#: A value that is no result.
NOTHING: Any = object()


@dataclass(frozen=True)
class End:
    """How Celery took one delivery."""

    result: Any = NOTHING
    error: BaseException | None = None

    @property
    def is_ignored(self) -> bool:
        """Whether the message was acknowledged without a result."""
        return isinstance(self.error, Ignore)

    @property
    def is_retried(self) -> bool:
        """Whether Celery was told of a retry."""
        return isinstance(self.error, Retry)

    @property
    def is_requeued(self) -> bool:
        """Whether the message goes back to its queue."""
        return isinstance(self.error, Reject) and bool(getattr(self.error, "requeue", False))


@dataclass(frozen=True)
class Sent:
    """One message on its way, and what the ledger said of its key when it went."""

    name: str
    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any]
    row: IdempotencyKey | None


class Till(Celery):
    """An app whose messages are kept, and delivered when a test says so."""

    def __init__(self, name: str) -> None:
        super().__init__(name, set_as_current=False, broker="memory://", backend="disabled://")
        # The variable CELERY_BROKER_URL goes before broker=: all processes of the tests share that server,
        # and a sweeper leaves a queue alone in which others have left messages.
        self.conf.update(broker_read_url="memory://", broker_write_url="memory://")
        self.sent: list[Sent] = []
        self._numbers = count(1)
        #: Raised instead of sending, when set.
        self.broker_error: Exception | None = None

    def send_task(  # type: ignore[override]  # the options that are used here
        self, name: str, args: Any = None, kwargs: Any = None, **options: Any
    ) -> AsyncResult[Any]:
        if is_stamped(options):
            return super().send_task(name, args, kwargs, **options)
        if self.broker_error is not None:
            raise self.broker_error
        row = IdempotencyKey.objects.using(settings().database).first()
        self.sent.append(Sent(name, list(args or ()), dict(kwargs or {}), options, row))
        return self.AsyncResult(options.get("task_id") or uuid4().hex)

    def producer_or_acquire(self, producer: Any = None) -> Any:
        """What a message that was stamped before is published with."""
        stored = isinstance(producer, Producer)
        return nullcontext(Wire(self.send_task)) if stored else super().producer_or_acquire(producer)

    def new_name(self) -> str:
        """A task's name that no other has."""
        return f"till.sell_{next(self._numbers)}"

    def guarded(self, **options: Any) -> Callable[[Callable[..., Any]], Any]:
        """Decorate an atomic task of one test; ``order`` is its key."""
        defaults = {
            "name": self.new_name(),
            "base": IdempotentTask,
            "bind": True,
            "shared": False,
            "mode": "atomic",
            "key": "order",
            "default_retry_delay": 0,
            "on_store_down": "raise",
        }
        decorate: Callable[[Callable[..., Any]], Any] = self.task(**{**defaults, **options})
        return decorate

    def seller(self, shop: Counter, **options: Any) -> Any:
        """A task that writes one effect, named by its first argument's key, and returns the order."""

        @self.guarded(**options)
        def sell(task: Any, order: int, note: str = "sold") -> dict[str, int]:
            shop.sell(task, note)
            return {"order": order}

        return sell

    def deliver(self, task: Any, *args: Any, id: str = "A", **message: Any) -> End:  # noqa: A002
        """Deliver one message; ``message`` are parts of its request, ``redelivered`` among them."""
        request = {
            "id": id,
            "task": task.name,
            "root_id": id,
            "retries": 0,
            "hostname": "celery@tests",
            "kwargs": {},
            "delivery_info": {
                "redelivered": message.pop("redelivered", False),
                "routing_key": "celery",
                "exchange": "",
            },
            **message,
        }
        tracer = build_tracer(task.name, task, app=self)
        try:
            traced = tracer(id, list(args), request["kwargs"], request)
        except BaseException as error:  # noqa: BLE001  what gets past Celery's tracer is an end as well
            return End(error=error)
        return End(error=traced.info.retval) if traced.info else End(result=traced.retval)

    def comes_back(self, end: End) -> bool:
        """Whether the message goes back, or a copy of it is out.

        A transaction that was left without a word ends with its connection, and only then its key is free:
        the server may take longer for that than an attempt waits for the key of another one.
        """
        return end.is_requeued or (end.is_ignored and bool(self.sent))

    def deliver_until_answered(self, task: Any, *args: Any, **message: Any) -> End:
        """Deliver one message, and again as often as it comes back."""
        ends: list[End] = []

        def is_answered() -> bool:
            self.sent.clear()
            ends.append(self.deliver(task, *args, **message))
            return not self.comes_back(ends[-1])

        eventually(is_answered, "the message is answered")
        return ends[-1]

    def deliver_sent(self, task: Any) -> End:
        """Deliver the oldest message that was sent."""
        sent = self.sent.pop(0)
        options: Mapping[str, Any] = sent.options
        return self.deliver(
            task,
            *sent.args,
            id=options["task_id"],
            kwargs=sent.kwargs,
            retries=options.get("retries") or 0,
            **(options.get("headers") or {}),
        )


@dataclass
class Counter:
    """The database of one test: what was written, and the key's row."""

    alias: str
    #: What bodies saw, in the order of their starts.
    starts: list[dict[str, Any]] = field(default_factory=list)

    def sell(self, task: Any, note: str = "") -> None:
        """Write one effect and remember what this attempt knows of itself."""
        now = task.idempotency
        self.starts.append(
            {
                "token": now.token,
                "attempt": now.attempt,
                "died": now.previous_attempt_died,
                "downstream": now.downstream_key("charge"),
            }
        )
        self.write(now.key, attempt=now.attempt, token=now.token, note=note)

    def write(self, key: str = "loose", *, attempt: int = 0, token: int = 0, note: str = "") -> None:
        """Write one effect."""
        Effect.objects.using(self.alias).create(key=key, attempt=attempt, token=token, note=note)

    @property
    def runs(self) -> int:
        """How often a body has begun."""
        return len(self.starts)

    @property
    def effects(self) -> list[str]:
        """The notes of what is written and committed."""
        return list(Effect.objects.using(self.alias).order_by("id").values_list("note", flat=True))

    @property
    def row(self) -> IdempotencyKey:
        """The only key's row."""
        return IdempotencyKey.objects.using(self.alias).get()

    @property
    def state(self) -> State | None:
        """The only key's state; None without a row."""
        row = IdempotencyKey.objects.using(self.alias).first()
        return None if row is None else State(row.state)

    @property
    def refusals(self) -> list[str]:
        """Why calls were refused as duplicates."""
        return list(
            DuplicateAttempt.objects.using(self.alias).order_by("id").values_list("reason", flat=True)
        )

    @property
    def answered(self) -> list[str]:
        """The replaced calls that are remembered."""
        return list(AnsweredCall.objects.using(self.alias).order_by("id").values_list("task_id", flat=True))

    def clear(self) -> None:
        """Forget the key."""
        IdempotencyKey.objects.using(self.alias).all().delete()

    def clear_effects(self) -> None:
        """Forget what was written."""
        Effect.objects.using(self.alias).all().delete()

    def put(self, **columns: Any) -> None:
        """Give the row what no delivery would give it."""
        IdempotencyKey.objects.using(self.alias).update(**columns)
