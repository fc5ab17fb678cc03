"""Keeps guarded messages from workers of the version before the guard, by queues that only new workers take.

A worker that runs a task without the guard leaves the key's row as it is: the sweeper would send the call
again, and such a worker run it again. While ``ADOPTING`` is set each queue has a second one beside it, of the
same kind, which workers with this setting consume as well. What the ledger knows of goes there.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from celery import Celery
from celery.app.task import extract_exec_options  # type: ignore[attr-defined]  # not in the stubs
from kombu import Exchange, Queue
from kombu.common import Broadcast

from ..conf import settings
from ..conf.project import ENDING

#: The end of the name of a queue that only workers with the guard consume.
SUFFIX = ".guarded"

_KINDS = ("direct", "topic")


def adopted(app: Celery, task: str, options: Mapping[str, Any], args: Any, kwargs: Any) -> dict[str, Any]:
    """Sending options with the queue of a guarded message, where the setting or a suffix asks for one.

    Unchanged for an address without a queue: nobody knows who consumes from an exchange. Raises what a
    router of the project raises.
    """
    given = dict(options)
    stated = getattr(given.get("queue"), "name", given.get("queue"))
    if settings().adopting is not True:
        return {**given, "queue": at_home(str(stated))} if is_guarded_queue(stated) else given
    if stated is None and not given.get("exchange"):
        router: Any = app.amqp.router
        routed = router.route(dict(given), task, list(args or ()), dict(kwargs or {}), app.tasks.get(task))
        stated = getattr(routed.get("queue"), "name", None)
    if not isinstance(stated, str):
        return given
    dropped = {"exchange", "routing_key", "exchange_type", "declare"}
    kept = {name: value for name, value in given.items() if name not in dropped}
    return {**kept, "queue": beside(app, stated).name}


def of_a_call(task: Any, args: Any, kwargs: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a call that Celery sends at once, for a queue that workers with the guard take."""
    if settings().adopting is not True or task.app.conf.task_always_eager:
        return dict(options)
    return adopted(task.app, task.name, {**extract_exec_options(task), **options}, args, kwargs)


def beside(app: Celery, name: str) -> Queue:
    """The second queue beside a queue, declared to the app; of a second queue the same one."""
    home = at_home(name)
    amqp: Any = app.amqp
    queues = amqp.queues
    if home + SUFFIX not in queues:
        queues.add(_like(queues[home]))
    return queues[home + SUFFIX]  # type: ignore[no-any-return]


def consume(app: Celery) -> None:
    """Let this worker take what goes to the second queue beside each of its queues."""
    amqp: Any = app.amqp
    if settings().adopting in {True, ENDING}:
        for name, queue in list(amqp.queues.consume_from.items()):
            if not isinstance(queue, Broadcast):
                amqp.queues.select_add(beside(app, name))


def at_home(name: str) -> str:
    """The name of the queue beside which a second queue is; of any other queue its own."""
    return name.removesuffix(SUFFIX)


def is_guarded_queue(name: object) -> bool:
    """Whether it is the name of a second queue."""
    return isinstance(name, str) and name.endswith(SUFFIX)


def _like(home: Queue) -> Queue:
    """A queue with the arguments of another one, and an exchange of its own of the same kind."""
    kind = getattr(home.exchange, "type", None)
    queue = copy(home)
    queue.name = queue.routing_key = home.name + SUFFIX
    queue.bindings = []  # or what is sent to an exchange would reach both
    queue.exchange = Exchange(queue.name, type=kind if kind in _KINDS else "direct")
    return queue
