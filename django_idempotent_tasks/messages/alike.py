"""Tells whether Celery makes the same of all calls of a task, but for what the calls themselves say."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

from celery import signals
from celery.app import amqp, base, task
from celery.app.routes import MapRoute, Router

#: The functions that a call passes through, of its task and of its app.
_OF_A_TASK = ("apply_async", "shadow_name", "_get_exec_options", "idempotency_identity")
_OF_AN_APP = ("send_task",)
#: Where those come from that treat all calls alike: Celery, and our own class.
_CELERYS = (str(amqp.__file__), str(base.__file__), str(task.__file__))
_KNOWN = (*_CELERYS, __file__.rpartition("messages")[0] + "task")
_SIGNALS: tuple[Any, ...] = (signals.before_task_publish, signals.after_task_publish, signals.task_sent)


def treats_alike(task: Any) -> bool:
    """Whether nobody is asked about each call: no class, router, signal or instrument of anybody's."""
    app = task.app
    if app.conf.task_always_eager or task.__v2_compat__:
        return False
    if getattr(task, "_dump_pydantic_arguments", None) is not None:
        return False
    return not is_listened_to() and _is_known(task, _OF_A_TASK) and _sends_alike(app)


def is_listened_to() -> bool:
    """Whether anybody hears of each call that is sent."""
    return any(signal.receivers for signal in _SIGNALS)


def routes_by_name(app: Any) -> bool:
    """Whether a call's route depends on the name of its task alone."""
    is_own = type(app.amqp) is amqp.AMQP and type(app.amqp.router) is Router
    return is_own and all(type(route) is MapRoute for route in app.amqp.routes)


def _sends_alike(app: Any) -> bool:
    makes = getattr(app.amqp.create_task_message, "__func__", None)
    is_plain = makes is amqp.AMQP.as_task_v2 and _is_plain(makes) and _is_plain(app.amqp.send_task_message)
    return is_plain and routes_by_name(app) and _is_known(app, _OF_AN_APP)


def _is_known(owner: Any, names: tuple[str, ...]) -> bool:
    """Whether these methods are Celery's or ours: no other class has them, no instrument is around them."""
    return not (vars(owner).keys() & set(names)) and all(map(_is_plain, _methods(type(owner), names)))


def _methods(kind: type, names: tuple[str, ...]) -> Iterator[Any]:
    for each in kind.__mro__:
        found = vars(each)
        yield from (found[name] for name in names if name in found)


def _is_plain(method: Any) -> bool:
    """Whether a function is written in one of the known files; a wrapper's code is its library's."""
    return type(method) is FunctionType and method.__code__.co_filename.startswith(_KNOWN)
