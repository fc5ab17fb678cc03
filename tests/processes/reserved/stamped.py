"""Tasks on whose calls the sender stamps something, and whose bodies say what came with them."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from celery import Task, signals

from django_idempotent_tasks import IdempotentTaskMixin, PermanentError
from tests.sample.celery import app
from tests.sample.tasks import guarded, journal

#: Whose request is served, in each process.
tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
STAMPS = ("of_the_class", "of_the_class_before", "of_the_app", "of_a_signal")


class Stamping(Task):  # type: ignore[type-arg]
    """What projects have: a class that knows nothing of us and adds a header."""

    abstract = True

    def apply_async(  # type: ignore[override]  # as projects write it
        self, args: Any = None, kwargs: Any = None, **options: Any
    ) -> Any:
        options["headers"] = {**(options.get("headers") or {}), "of_the_class": tenant.get()}
        return super().apply_async(args, kwargs, **options)


class Guarded(IdempotentTaskMixin, Stamping):
    """The mixin in front of it."""

    abstract = True

    def apply_async(  # type: ignore[override]  # as projects write it
        self, args: Any = None, kwargs: Any = None, **options: Any
    ) -> Any:
        options["headers"] = {**(options.get("headers") or {}), "of_the_class_before": tenant.get()}
        return super().apply_async(args, kwargs, **options)


_send_task = app.send_task


def _send_with_a_header(name: str, *args: Any, **options: Any) -> Any:
    if name.startswith("stamped."):
        options["headers"] = {"of_the_app": tenant.get(), **(options.get("headers") or {})}
    return _send_task(name, *args, **options)


app.send_task = _send_with_a_header  # type: ignore[method-assign]  # as a subclass of Celery would have it


def stamp(sender: str = "", headers: Any = None, **_kwargs: object) -> None:
    """Stamp what is published, as a receiver of a project would."""
    if sender.startswith("stamped."):
        headers["of_a_signal"] = tenant.get()


@signals.worker_init.connect
def _listen(**_kwargs: object) -> None:
    """In workers; the test that sends listens while it runs, and no other test beside it."""
    signals.before_task_publish.connect(stamp)


@guarded(name="stamped.serve", base=Guarded, reserve=True, max_crashes=20)
def serve(self: Any, key: str, *, fails: bool = False) -> None:
    """Say what was stamped on the call; ``fails``: the first time for good."""
    runs = journal().starts(key)
    found = {name: self.request.get(name) for name in STAMPS}
    journal().write("started", key, attempt=runs + 1, **found)
    if fails and runs == 0:
        raise PermanentError(key)
