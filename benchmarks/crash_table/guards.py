"""The ways to guard a task, each as its documentation tells: the same body becomes a task of an app."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from redis import Redis

from benchmarks.crash_table.deeds import Trouble, act

#: The body as it is handed to ``app.task(bind=True)``.
Body = Callable[[Any, str, str, float], Any]
#: Seconds that naive locks are kept, which is also what their authors hope that no task takes.
NAIVE_SECONDS = 300
#: The lease of the tuned task, in seconds; the default is 60.
TUNED_LEASE = 10


@dataclass(frozen=True)
class Variant:
    """One task of each guard; ``lock`` is the time in seconds after which its lock or lease ends."""

    name: str
    late: bool = True
    lock: int | None = None

    @property
    def task(self) -> str:
        """The name under which the task is registered."""
        return f"crash.{self.name}"

    @property
    def options(self) -> dict[str, Any]:
        """Celery's options; ``late``: acknowledged after the body, and returned with a lost child."""
        return {
            "name": self.task,
            "bind": True,
            # A shared task would be made in every other subject's app as well.
            "shared": False,
            "acks_late": self.late,
            "reject_on_worker_lost": self.late,
        }


CAREFUL = Variant("careful")
EARLY = Variant("early", late=False)
BRIEF = Variant("brief", lock=3)
VARIANTS = (CAREFUL, EARLY, BRIEF)


def body(self: Any, key: str, deed: str, seconds: float) -> Any:
    """Run without a guard of its own."""
    return act(self, key, deed, seconds)


def plain(app: Any, variant: Variant) -> None:
    """No guard."""
    app.task(**variant.options)(body)


def naive(app: Any, variant: Variant) -> None:
    """A lock in Redis for the time of the body; who finds it held skips."""
    client = Redis.from_url(app.conf.broker_url)
    lock_seconds = variant.lock or NAIVE_SECONDS

    def locked(self: Any, key: str, deed: str, seconds: float) -> Any:
        lock = naive_lock(self, key, deed, seconds)
        if not client.set(lock, "1", nx=True, ex=lock_seconds):
            return None
        try:
            return act(self, key, deed, seconds)
        finally:
            client.delete(lock)

    app.task(**variant.options)(locked)


def naive_lock(task: Any, key: str, *_others: object) -> str:
    """The name of the naive lock."""
    return f"lock:{task.name}:{key}"


def once(app: Any, variant: Variant) -> None:
    """celery-once, which answers duplicates instead of raising."""
    timeout = {"timeout": variant.lock} if variant.lock else {}
    base = import_module("celery_once").QueueOnce
    app.task(base=base, once={"graceful": True, **timeout}, **variant.options)(body)


def once_lock(task: Any, *args: object) -> str:
    """The name of celery-once's lock."""
    return str(task.get_key(args))


def singleton(app: Any, variant: Variant) -> None:
    """celery-singleton, whose locks do not expire unless told to."""
    expiry = {"lock_expiry": variant.lock} if variant.lock else {}
    app.task(base=import_module("celery_singleton").Singleton, **expiry, **variant.options)(body)


def singleton_lock(task: Any, *args: object) -> str:
    """The name of celery-singleton's lock."""
    return str(task.generate_lock(task.name, list(args)))


def ours(app: Any, variant: Variant) -> None:
    """This package as it is when nothing is set."""
    _guarded(app, variant)


def ours_tuned(app: Any, variant: Variant) -> None:
    """This package with a short lease, own retries, and duplicates that wait for the result."""
    retries = {"autoretry_for": (Trouble,), "max_retries": 3, "default_retry_delay": 1}
    _guarded(app, variant, lease=TUNED_LEASE, on_duplicate="replay", **retries)


def _guarded(app: Any, variant: Variant, **options: Any) -> None:
    lease = {"lease": variant.lock} if variant.lock else {}
    base = import_module("django_idempotent_tasks").IdempotentTask
    # It acknowledges late itself, always.
    names = {"name": variant.task, "bind": True, "shared": False}
    app.task(base=base, **{**options, **lease, **names})(body)
