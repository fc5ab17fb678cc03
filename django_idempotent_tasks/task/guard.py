"""Tells which tasks are guarded, and which classes and methods may come between Celery and the guard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from celery import Celery, Task

from ..conf import settings
from ..conf.options import named_options
from ..conf.reader import NOT_GIVEN
from ..exceptions import ConfigurationError
from ..identity import names

#: The error of a task until its options are read.
UNREAD = ConfigurationError(
    "its options were never read: an on_bound() of its own must call super().on_bound(app)."
)

#: Methods of ours that a class before the mixin may extend, but must call.
EXTENDABLE = ("__call__", "on_bound", "apply_async", "apply", "delay_on_commit", "apply_async_on_commit")

#: Options of celery-once and celery-singleton, which our class would take for plain attributes.
OF_OTHERS = ("once", "unique_on", "raise_on_duplicate", "lock_expiry")

#: How many helper methods deep a call of ours is looked for.
_DEPTH = 3


def is_guarded(task: type, app: Celery, ours: type) -> bool:
    """Whether a task is guarded: with ``Celery(task_cls=...)`` only if it sets an option; Celery's own never.

    Options that the app's class or an annotation sets for every task are defaults, and do not count.
    """
    if str(getattr(task, "name", "")).startswith("celery."):
        return False
    inherited = issubclass(app.Task, ours) and issubclass(task, app.Task)
    return not inherited or settings().guard_all or bool(_set_by_itself(task, app))


def answer_to_earlier_names(task: Any, app: Celery) -> None:
    """Let messages under the earlier names of a task find it.

    Raises ConfigurationError where another task has one of them.
    """
    aliases = task.idempotency_policy.aliases
    tasks = app._tasks  # type: ignore[attr-defined]  # noqa: SLF001  app.tasks would finalize the app
    own = tasks.get(task.name)
    if not aliases or own is None:
        return
    for name in aliases:
        if tasks.get(name, own) is not own:
            msg = f"Task {task.name}: option 'aliases' has {name!r}, which is the name of another task."
            raise ConfigurationError(msg)
        tasks[name] = own
    # To the end, since Celery's tracer logs the last of a task's names.
    tasks[task.name] = tasks.pop(task.name)
    names.renamed(aliases, to=task.name)


def unset_late_acks(task: Any, app: Celery) -> None:
    """Give an unguarded task the project's own acknowledgement settings back."""
    for name, default in (
        ("acks_late", app.conf.task_acks_late),
        ("reject_on_worker_lost", app.conf.task_reject_on_worker_lost),
    ):
        if name not in vars(task):
            setattr(task, name, default)


def forgotten_options(task: type, app: Celery) -> list[str]:
    """Options of ours on a task without our class, where they do nothing."""
    if str(getattr(task, "name", "")).startswith("celery."):
        return []
    return _set_by_itself(task, app)


def left_over(task: type) -> list[str]:
    """Options of celery-once or celery-singleton on a guarded task that no longer has their class."""
    if any(kind.__module__.startswith(("celery_once", "celery_singleton")) for kind in task.__mro__):
        return []
    return [name for name in OF_OTHERS if hasattr(task, name)]


def unused_lease(task: type, app: Celery) -> bool:
    """Whether an atomic task sets ``lease`` itself, not in a base or an annotation that many tasks share."""
    return "lease" in vars(task) and vars(task)["lease"] is not _for_every_task(app, "lease")


def _set_by_itself(task: type, app: Celery) -> list[str]:
    values = named_options(task, but=app.Task)
    return [name for name, value in values.items() if value is not _for_every_task(app, name)]


def _for_every_task(app: Celery, name: str) -> Any:
    """The value that ``task_annotations["*"]`` sets; the last annotation counts, as in Celery."""
    found = NOT_GIVEN
    annotations: Any = app.annotations
    for annotation in annotations:
        found = (annotation.annotate_any() or {}).get(name, found)
    return found


def has_calls_behind(task: type, ours: type) -> bool:
    """Whether a class behind ours wraps every call by a ``__call__`` of its own."""
    behind = task.__mro__[task.__mro__.index(ours) + 1 :]
    return next(kind for kind in behind if "__call__" in vars(kind)) is not Task


def left_out(task: type) -> Iterator[tuple[type, str]]:
    """Each class before ours, and the method there that never calls ours."""
    kinds = task.__mro__
    last = max(place for place, kind in enumerate(kinds) if "idempotency_guarded" in vars(kind))
    front = kinds[:last]
    helpers = {name: method for kind in reversed(front) for name, method in vars(kind).items()}
    helpers.pop("run", None)  # the body may call what it likes
    for kind in front:
        for name in EXTENDABLE:
            method = vars(kind).get(name)
            if method is not None and not _calls(method, name, helpers, _DEPTH):
                yield kind, name


def _calls(method: Any, name: str, helpers: Mapping[str, Any], depth: int) -> bool:
    """Whether a method, a function that it wraps or a helper that it uses names super() or our method.

    True where the code cannot be read.
    """
    function = getattr(method, "__func__", method)
    code = getattr(function, "__code__", None)
    if code is None or depth == 0:
        return code is None
    words = set(_words(code))
    if words & {"super", name}:
        return True
    wrapped = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    inner = [*(helpers[word] for word in words if word in helpers), *wrapped]
    return any(
        _is_ours(each, name) or _calls(each, name, helpers, depth - 1)
        for each in inner
        if hasattr(getattr(each, "__func__", each), "__code__")
    )


def _is_ours(function: Any, name: str) -> bool:
    """Whether a wrapper, such as a monitoring tool's, holds our own method."""
    home, called = getattr(function, "__module__", ""), getattr(function, "__name__", "")
    return bool(home == f"{__package__}.mixin" and called == name)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _words(code: Any) -> Iterator[str]:
    yield from (*code.co_names, *code.co_freevars)
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from _words(constant)
