"""What Celery does when a task is created and when a child runs it."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from billiard.common import terminate_handler_fired  # type: ignore[attr-defined]  # newer than its stubs
from celery import Task
from celery.contrib.django.task import DjangoTask
from celery.exceptions import Ignore, Reject, Retry, SoftTimeLimitExceeded, WorkerShutdown, WorkerTerminate

from tests.processes.plain_celery.conftest import VERSION, Queued, Tracer, define


def answer() -> str:
    """A body."""
    return "result"


class Called(Task):  # type: ignore[type-arg]  # generic in the stubs only
    """A task with a ``__call__`` of its own."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return ("through __call__", self.request.called_directly, super().__call__(*args, **kwargs))


def test_a_customised_call_is_what_the_tracer_runs(app: Any, trace: Tracer) -> None:
    task = define(app, base=Called, name="called")(answer)

    assert trace(task).retval == ("through __call__", False, "result")
    assert task.apply().result == ("through __call__", False, "result")


def test_a_direct_call_says_so(app: Any) -> None:
    task = define(app, base=Called, name="direct")(answer)
    assert task() == ("through __call__", True, "result")


def test_the_call_of_the_base_class_runs_the_body_within_the_same_request(app: Any) -> None:
    ids: list[Any] = []

    class Outer(Task):  # type: ignore[type-arg]
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            ids.append(self.request.id)
            return self.run(*args, **kwargs)

    @define(app, base=Outer, name="outer", bind=True)
    def task(self: Any) -> None:
        ids.append(self.request.id)

    task.apply(task_id="one")
    assert ids == ["one", "one"]


def test_automatic_retries_wrap_run_so_that_they_ask_within_the_call(app: Any, trace: Tracer) -> None:
    within: list[type[BaseException]] = []

    class Outer(Task):  # type: ignore[type-arg]
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            try:
                return self.run(*args, **kwargs)
            except BaseException as error:
                within.append(type(error))
                raise

    @define(app, base=Outer, name="auto", autoretry_for=(KeyError,), default_retry_delay=0)
    def task() -> None:
        raise KeyError

    assert task._orig_run is not task.run
    trace(task)
    assert within == [Retry]


@pytest.mark.parametrize("throw", [True, False])
def test_a_retry_is_published_within_run_under_the_same_id(
    app: Any, queued: Queued, trace: Tracer, throw: bool
) -> None:
    found: list[Any] = []

    @define(app, name="retried", bind=True)
    def task(self: Any, argument: int) -> None:
        try:
            self.retry(args=(argument + 1,), countdown=7, throw=throw)
        finally:
            found.extend(queued())

    trace(task, 1, id="the-id", retries=2)
    (message,) = found
    assert (message.headers["id"], message.headers["retries"]) == ("the-id", 3)
    assert message.headers["eta"]
    assert message.decode()[0] == [2]


def test_a_retry_goes_through_apply_async_with_the_id_and_the_higher_count(app: Any, trace: Tracer) -> None:
    asked: list[tuple[Any, Any]] = []

    class Asking(Task):  # type: ignore[type-arg]
        def apply_async(self, *_args: Any, **options: Any) -> Any:
            asked.append((options["task_id"], options["retries"]))

    @define(app, base=Asking, name="asking", bind=True)
    def task(self: Any) -> None:
        self.retry(countdown=0)

    trace(task, id="the-id", retries=2)
    assert asked == [("the-id", 3)]


def test_a_retry_that_cannot_be_published_is_a_reject_without_requeue(app: Any, trace: Tracer) -> None:
    """The reason why the ledger is written before a retry is published: Celery drops the message."""
    raised: list[BaseException] = []

    class Unreachable(Task):  # type: ignore[type-arg]
        def apply_async(self, *_args: Any, **_options: Any) -> Any:
            raise ConnectionError

    @define(app, base=Unreachable, name="unreachable", bind=True)
    def task(self: Any) -> None:
        try:
            self.retry(countdown=0)
        except BaseException as error:
            raised.append(error)
            raise

    trace(task)
    (error,) = raised
    assert isinstance(error, Reject)
    assert error.requeue is False  # type: ignore[attr-defined]


def test_a_retry_keeps_what_it_is_for_among_its_arguments_and_what_can_be_pickled_beside_it() -> None:
    """Where we read what was raised."""

    class Declined(ConnectionError):
        def __init__(self, card: str, code: int) -> None:
            super().__init__(f"{card}: {code}")

    given = Declined("4111", 51)
    retry: Any = Retry("later", given, 5)  # type: ignore[arg-type]  # the stubs' numbers are abstract
    assert retry.args[1] is given
    assert type(retry.exc) is ConnectionError


def test_the_hooks_are_looked_up_in_the_class_and_called_around_the_call(app: Any, trace: Tracer) -> None:
    """Where we put our question before them."""
    called: list[str] = []

    class Hooked(Task):  # type: ignore[type-arg]
        abstract = True

        def before_start(self, *_: Any) -> None:
            called.append("before_start")

        def on_success(self, *_: Any) -> None:
            called.append("on_success")

        def after_return(self, *_: Any) -> None:
            called.append("after_return")

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            called.append("__call__")
            return super().__call__(*args, **kwargs)

    trace(define(app, base=Hooked, name="hooked")(answer))
    assert called == ["before_start", "__call__", "on_success", "after_return"]


def test_on_bound_is_called_at_creation_when_the_options_are_class_attributes(app: Any) -> None:
    bound: list[tuple[str, Any, Any]] = []

    class Bound(Task):  # type: ignore[type-arg]
        abstract = True
        flavour: ClassVar[str] = "plain"

        @classmethod
        def on_bound(cls, app: Any) -> None:
            bound.append((cls.name or "", cls.flavour, app))

    task = define(app, base=Bound, name="bound", flavour="sweet")(answer)
    assert task.name == "bound"
    assert bound == [("bound", "sweet", app)]


def test_a_function_given_as_an_option_becomes_a_method_unless_it_is_static(app: Any) -> None:
    """Why callables among our options are stored as static methods."""
    task = define(app, name="optioned", classify=lambda *args: args)(answer)
    assert task.classify(1) == (task, 1)


def test_a_soft_limit_above_the_hard_one_is_refused_at_the_call(app: Any) -> None:
    wrong = define(app, name="wrong", soft_time_limit=10, time_limit=5)(answer)
    equal = define(app, name="equal", soft_time_limit=5, time_limit=5)(answer)

    with pytest.raises(ValueError, match="soft_time_limit"):
        wrong.delay()
    equal.delay()


ACKS_ON_TIMEOUT = {"5.6": "acks_on_failure_or_timeout", "5.7": "acks_on_timeout"}


@pytest.mark.parametrize("given", [None, True, False])
def test_a_bound_task_says_whether_a_hard_time_limit_acknowledges(app: Any, given: bool | None) -> None:
    name = ACKS_ON_TIMEOUT[VERSION]
    options = {} if given is None else {name: given}
    task = define(app, name=f"acks-{given}", **options)(answer)
    task.bind(app)
    assert getattr(task, name) is (True if given is None else given)


@pytest.mark.parametrize(("version", "exists"), [("5.6", False), ("5.7", True)])
def test_the_separate_option_for_time_limits_came_with_a_version(version: str, exists: bool) -> None:
    assert version != VERSION or hasattr(Task, "acks_on_timeout") is exists


def test_the_exceptions_that_are_told_apart_are_what_they_are() -> None:
    assert issubclass(Retry, Exception)
    assert not issubclass(Retry, Ignore)
    assert not issubclass(Reject, Ignore)
    assert issubclass(SoftTimeLimitExceeded, Exception)
    assert issubclass(WorkerShutdown, SystemExit)
    assert issubclass(WorkerTerminate, SystemExit)


def test_it_can_be_asked_whether_a_child_was_told_to_terminate() -> None:
    assert terminate_handler_fired() is False


def test_the_task_class_for_django_adds_sending_on_commit() -> None:
    assert {"delay_on_commit", "apply_async_on_commit"} <= set(vars(DjangoTask))
