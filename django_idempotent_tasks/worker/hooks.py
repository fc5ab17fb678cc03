"""Receives Celery's worker signals: starts the sweeper, keeps connections, refuses bad options."""

from __future__ import annotations

import logging
from functools import wraps
from typing import Any

from celery import signals
from celery.concurrency import get_implementation
from celery.utils.functional import maybe_list
from celery.worker.control import Panel
from celery.worker.state import revoked

from ..checks import missing_constraints, missing_tables, problems
from ..conf import settings
from ..errors.stopping import is_consuming, watch
from ..ledger import pauses
from ..ledger.owner import renew_instance
from ..messages import adopting
from ..running import altered, heartbeat
from ..running.leftovers import close_altered, close_left_open, in_use
from ..sweeper.thread import Sweeper
from . import canary, redis_restart
from .breaker import kept
from .parent import install
from .pauses import watch as pause_watch
from .presence import Reporter
from .revoked import cancel_revoked, cancel_waiting, fail_unknown

logger = logging.getLogger("django_idempotent_tasks")

_UID = "django_idempotent_tasks"

#: Seconds between two checks for dead children. Celery checks at once when a child's pipe closes, which is
#: shortly before the child can be waited for, and then only every 5 seconds.
CHILD_LOOK = 1.0
_sweepers: list[Sweeper] = []
_reporters: list[Reporter] = []


def connect() -> None:
    """Listen to the signals that Celery sends in this process if it becomes a worker."""
    signals.worker_init.connect(_on_init, dispatch_uid=_UID)
    signals.celeryd_after_setup.connect(_refuse_bad_options, dispatch_uid=_UID)
    signals.task_revoked.connect(_on_revoked, dispatch_uid=_UID)
    signals.task_unknown.connect(_on_unknown, dispatch_uid=_UID)
    signals.worker_ready.connect(_on_ready, dispatch_uid=_UID)
    signals.worker_shutdown.connect(_on_shutdown, dispatch_uid=_UID)


def _on_init(sender: Any = None, **_kwargs: object) -> None:
    renew_instance()
    watch(sender)
    app = getattr(sender, "app", None)
    if app is None:
        return
    adopting.consume(app)
    install(app)
    pauses.share()
    redis_restart.install()
    _extend_revoke()
    watch_connections()
    if settings().keep_connections and not _is_green(sender):
        keep_connections(app)
    spare_pools(app)


def _is_green(worker: Any) -> bool:
    """Whether the pool runs each task in a greenlet of its own, whose connections no other task will use."""
    return bool(getattr(get_implementation(worker.pool_cls), "is_green", False))


def _refuse_bad_options(instance: Any = None, **_kwargs: object) -> None:
    """Stop a worker with bad options by SystemExit: any other error of a receiver Celery only logs."""
    app = getattr(instance, "app", None)
    found = [*problems(app), *missing_tables(app)] if app is not None else []
    if app is not None and not found:
        found = _missing_unique_keys(app)
    for problem in found:
        logger.critical("%s", problem)
    if found:
        raise SystemExit(1)
    pause_watch.start()
    if _shares_its_process(instance):
        heartbeat.stay_connected()


def _shares_its_process(worker: Any) -> bool:
    """Whether several bodies run in one process, each with a connection of its own."""
    pool = get_implementation(getattr(worker, "pool_cls", None) or "prefork")
    return bool(pool.is_green) or pool.__module__.endswith(".thread")


def _missing_unique_keys(app: Any) -> list[str]:
    """The unique keys that the ledger's tables lack; a missing index only costs time, and is only logged."""
    missing = missing_constraints(app)
    for each in missing:
        if not each.is_unique:
            logger.warning("%s %s", each.text, each.remedy)
    return [f"{each.text} {each.remedy}" for each in missing if each.is_unique]


def _on_revoked(
    sender: Any = None,
    request: Any = None,
    *,
    terminated: bool = False,
    expired: bool = False,
    **_kwargs: object,
) -> None:
    cancel_revoked(sender, request, terminated=terminated, expired=expired)
    if expired and getattr(sender, "idempotency_guarded", False):
        # Celery notes an expired message's id as revoked; it must not drop a retry of the same call for that.
        revoked.discard(request.id)


def _on_unknown(name: str = "", id: str = "", message: Any = None, **_kwargs: object) -> None:  # noqa: A002
    fail_unknown(name, id, getattr(message, "headers", None))


def _extend_revoke() -> None:
    """Let the remote command ``revoke``, however it arrives, also cancel waiting calls in the ledger."""
    revoke = Panel.data["revoke"]
    if hasattr(revoke, "idempotent"):
        return

    @wraps(revoke)
    def revoke_and_cancel(state: Any, task_id: Any, *args: Any, **kwargs: Any) -> Any:
        reply = revoke(state, task_id, *args, **kwargs)
        cancel_waiting(maybe_list(task_id) or [])
        return reply

    revoke_and_cancel.idempotent = True  # type: ignore[attr-defined]
    Panel.data["revoke"] = revoke_and_cancel


def _on_ready(sender: Any = None, **_kwargs: object) -> None:
    canary.begin(sender)
    _look_at_children(sender)
    _report(sender)
    app = getattr(sender, "app", None)
    if app is not None and settings().sweeper == "thread":
        sweeper = Sweeper(app, may_lead=is_consuming)
        _sweepers.append(sweeper)
        sweeper.start()


def _report(consumer: Any) -> None:
    """Begin to write that this worker lives."""
    reporter = Reporter(consumer)
    _reporters.append(reporter)
    reporter.start()


def _look_at_children(consumer: Any) -> None:
    """Check often for dead children: until one is noticed, its key is held and its message waits."""
    hub, maintain = getattr(consumer, "hub", None), getattr(consumer.pool, "maintain_pool", None)
    if hub is not None and maintain is not None:
        hub.call_repeatedly(CHILD_LOOK, maintain)
        kept.begin()
        hub.call_repeatedly(CHILD_LOOK, kept.close_idle)


def _on_shutdown(**_kwargs: object) -> None:
    pause_watch.stop()
    while _sweepers:
        _sweepers.pop().stop()
    while _reporters:
        _reporters.pop().stop()
    kept.end()


def keep_connections(app: Any) -> None:
    """Let CONN_MAX_AGE and CONN_HEALTH_CHECKS decide how long a connection is kept between tasks.

    Celery's Django integration closes every connection before and after each task. What closes them
    after a fork is another method, and stays.
    """
    for worker_fixup in _worker_fixups(app):
        worker_fixup.close_database = _close_old


def spare_pools(app: Any) -> None:
    """Close connections that a task has altered before Celery gives them back to a pool."""
    for worker_fixup in _worker_fixups(app):
        worker_fixup.close_database = _altered_first(worker_fixup.close_database)


def _altered_first(close: Any) -> Any:
    @wraps(close)
    def close_database(**kwargs: object) -> None:
        close_altered()
        close(**kwargs)

    return close_database


def _worker_fixups(app: Any) -> list[Any]:
    found = [getattr(fixup, "worker_fixup", None) for fixup in getattr(app, "_fixups", ())]
    return [each for each in found if each is not None]


def watch_connections() -> None:
    """After every task, guarded or not, roll back and close connections that it has left open or altered.

    Celery closes connections first where nothing keeps them. Django then still notes an ``atomic()`` block
    that the task left open, and would take everything that follows for a part of that block.
    """
    altered.listen()
    signals.task_postrun.connect(_on_task_end, dispatch_uid=_UID)


def _on_task_end(sender: Any = None, **_kwargs: object) -> None:
    if not getattr(sender.request, "is_eager", False):
        close_left_open(sender.name)


def _close_old(**_kwargs: object) -> None:
    """What Django's ``close_old_connections`` does."""
    for connection in in_use():
        connection.close_if_unusable_or_obsolete()
