"""Whatever an error or a result does when it is read, the claim is settled, and nothing hangs."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, cast

import pytest
from celery.exceptions import Reject, Retry

from django_idempotent_tasks import IdempotentTask, PermanentError
from django_idempotent_tasks.models import FailedJob, IdempotencyKey
from django_idempotent_tasks.signals import key_failed
from django_idempotent_tasks.states import Reason, State
from tests.support.deliveries import APPS
from tests.support.till import Till

pytestmark = pytest.mark.django_db(transaction=True, available_apps=APPS)

#: Far above what any of these takes.
LONGEST = 20.0


class Hung(BaseException):
    """The test waited too long."""


@contextmanager
def in_time() -> Iterator[None]:
    """Raise out of what does not end."""

    def give_up(*_: object) -> NoReturn:
        raise Hung

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def raising(error: BaseException) -> Callable[..., NoReturn]:
    def method(*_args: object, **_kwargs: object) -> NoReturn:
        raise error

    return method


def endless(_self: object) -> Iterator[str]:
    while True:
        yield "again"


class Endless(list[str]):
    """Notes without an end."""

    __iter__ = endless


class Meta(type):
    """A class that cannot be asked for anything."""

    def __getattribute__(cls, name: str) -> Any:
        raise SystemExit(name)

    def __instancecheck__(cls, instance: object) -> bool:
        raise RuntimeError

    def __subclasscheck__(cls, subclass: type) -> bool:
        raise RuntimeError

    def __eq__(cls, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


def hostile() -> Any:
    """An error's class of that kind; pytest asks everything in a module for its attributes."""
    return Meta("Hostile", (Exception,), {"__module__": "shop"})


def made(base: Any = Exception, **attributes: Any) -> BaseException:
    """An error of a class with these attributes."""
    kind: Any = type("Odd", (base,), {"__module__": "shop", **attributes})
    return cast("BaseException", kind("shown"))


def made_of(value: object, **attributes: Any) -> BaseException:
    """Such an error, with a value of its own kind."""
    error = made(**attributes)
    error.args = (value,)
    return error


def ring() -> BaseException:
    """An error that is its own cause, behind one that is its own context."""
    first, second = ValueError("1"), ExceptionGroup("many", [ValueError("2")])
    first.__cause__, second.__cause__ = second, first
    second.exceptions[0].__context__ = second
    return first


def noted(notes: Any) -> BaseException:
    error = ValueError("noted")
    vars(error)["__notes__"] = notes
    return error


EXIT: Any = raising(SystemExit(3))
STOP: Any = raising(GeneratorExit())
ERRORS: dict[str, Callable[[], BaseException]] = {
    "no module": lambda: made(__module__=None),
    "a module that raises": lambda: made(__module__=made(__str__=EXIT, __format__=EXIT)),
    "metaclass": hostile(),
    "class lies": lambda: made(__class__=property(lambda _: Retry)),
    "class says it is permanent": lambda: made(__class__=property(lambda _: PermanentError)),
    "class raises": lambda: made(__class__=property(raising(ZeroDivisionError()))),
    "class exits": lambda: made(__class__=property(EXIT)),
    "getattribute": lambda: made(__getattribute__=raising(ZeroDivisionError())),
    "getattribute exits": lambda: made(__getattribute__=EXIT),
    "getattr": lambda: made(__getattr__=EXIT),
    "str raises": lambda: made(__str__=raising(ZeroDivisionError())),
    "str exits": lambda: made(__str__=EXIT, __repr__=EXIT),
    "str ends": lambda: made(__str__=STOP, __repr__=STOP),
    "str is none": lambda: made(__str__=lambda _: None, __repr__=lambda _: None),
    "str is huge": lambda: made(__str__=lambda _: "x" * 5_000_000),
    "str recurses": lambda: made(__str__=str),
    "reduce exits": lambda: made(__reduce__=EXIT, __reduce_ex__=EXIT),
    "equals nothing": lambda: made(__eq__=EXIT, __hash__=EXIT, __bool__=EXIT, __len__=EXIT),
    "endless notes": lambda: noted(Endless(["a"])),
    "notes that exit": lambda: noted([made(__str__=EXIT)]),
    "notes as a property": lambda: made(__notes__=property(EXIT)),
    "cause as a property": lambda: made(
        **dict.fromkeys(("__cause__", "__context__", "__traceback__", "args"), property(EXIT))
    ),
    "ring": ring,
    "group": lambda: made(
        ExceptionGroup, __new__=lambda kind, _: BaseExceptionGroup.__new__(kind, "g", [ring()])
    ),
    "asks to wait": lambda: made(retry_after=property(EXIT), response=property(EXIT)),
    "an exit with a code": lambda: SystemExit(made(__repr__=EXIT, __str__=EXIT)),
    "a retry without anything": lambda: made(Retry, __init__=lambda *_: None, exc=property(EXIT)),
    "a reject without anything": lambda: made(Reject, __init__=lambda *_: None, requeue=property(EXIT)),
    "says that it is a driver's": lambda: made(__module__="psycopg", __getattr__=raising(LookupError())),
    "says that it is a driver's and exits": lambda: made(__module__="psycopg", sqlstate=property(EXIT)),
    "says that it is another driver's": lambda: made_of(made(__eq__=EXIT), __module__="MySQLdb"),
    "no exception": lambda: made(BaseException, __str__=EXIT),
}


#: How each of them is run: in which mode, and by a worker or eagerly.
HOW = ["leased", "leased eager", "atomic", "atomic eager"]


def runs(till: Till, body: Callable[..., Any], **options: Any) -> Iterator[tuple[str, IdempotencyKey, Any]]:
    """Run a body in each way, whatever Celery makes of it: how, the row, and what a worker's tracer got."""
    for order, how in enumerate(HOW):
        mode, _, where = how.partition(" ")
        options |= {"mode": mode, "key": "order", "name": f"shop.odd_{order}"}
        task: Any = decorate(till, body, base=IdempotentTask, bind=True, shared=False, **options)
        with in_time():
            end = eagerly(task, order) if where else till.deliver(task, order, id=how).error
        assert type(end) is not Hung, how
        yield how, IdempotencyKey.objects.get(task=task.name), end


def decorate(till: Any, *body: Any, **options: Any) -> Any:
    return till.task(*body, **options)


def eagerly(task: Any, order: int) -> BaseException | None:
    """Call a task; pytest itself takes errors apart that get so far."""
    try:
        task.apply((order,))
    except BaseException as error:  # noqa: BLE001  Celery lets it through
        return error
    return None


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """What a receiver of the project's makes of the errors that it is told of."""
    told: list[str] = []

    def read(error: BaseException, **_: object) -> None:
        told.append("".join(traceback.format_exception(error)))

    key_failed.connect(read)
    yield told
    key_failed.disconnect(read)


@pytest.mark.parametrize("name", ERRORS)
def test_a_claim_is_settled_whatever_its_error_does(till: Till, name: str, heard: list[str]) -> None:
    def sell(self: Any, order: int) -> NoReturn:  # noqa: ARG001
        error = ERRORS[name]()
        raise error

    for how, row, end in runs(till, sell, autoretry_for=(KeyError,), transient_errors=(OSError,)):
        assert (row.state, row.token) == (State.FAILED, 1), how
        job = FailedJob.objects.get(task=row.task)
        assert job.error, how
        assert len(job.traceback) < 100_000, how
        assert heard.pop(), how
        assert not heard, how
        assert type.__subclasscheck__(Exception, type(end)) or "eager" in how, "it would end the worker"


@pytest.mark.parametrize("name", ["str exits", "reduce exits", "metaclass", "class raises"])
def test_a_hostile_error_that_is_retried_is_settled_too(till: Till, name: str) -> None:
    def sell(self: Any, order: int) -> NoReturn:  # noqa: ARG001
        error = ERRORS[name]()
        raise error

    for how, row, _ in runs(till, sell, autoretry_for=(Exception,), max_retries=1):
        assert row.state in {State.RETRY, State.FAILED}, how


@pytest.mark.parametrize(
    "classify",
    [EXIT, STOP, lambda _: made(__eq__=EXIT, __hash__=EXIT, __repr__=EXIT), raising(ERRORS["str exits"]())],
    ids=["exits", "ends", "returns", "raises"],
)
def test_a_hostile_classifier_decides_nothing(till: Till, classify: Any) -> None:
    def sell(self: Any, order: int) -> NoReturn:  # noqa: ARG001
        raise KeyError(order)

    for how, row, _ in runs(till, sell, classify=classify, permanent_errors=(KeyError,)):
        assert (row.state, row.reason) == (State.FAILED, Reason.PERMANENT), how


class Text(str):
    """A text that lies."""

    __slots__ = ()
    __len__ = __str__ = __repr__ = __iter__ = __contains__ = EXIT


def around_itself() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


RESULTS: dict[str, Callable[[], Any]] = {
    "reduce": type("Odd", (), {"__reduce__": EXIT, "__reduce_ex__": EXIT, "__json__": EXIT}),
    "getattribute": type("Odd", (), {"__getattribute__": EXIT}),
    "iter": type("Odd", (), {"__iter__": STOP, "__len__": EXIT, "__getitem__": EXIT}),
    "a list": lambda: type("Odd", (list,), {"__iter__": EXIT, "__len__": EXIT})([1]),
    "a dict": lambda: type("Odd", (dict,), {"items": EXIT, "__iter__": EXIT, "__len__": EXIT})(a=1),
    "a text": lambda: Text("text"),
    "a key": lambda: {Text("text"): 1},
    "a number": lambda: type("Odd", (int,), {"__repr__": EXIT, "__str__": EXIT, "__int__": EXIT})(7),
    "an exception": ERRORS["str exits"],
    "a class": hostile,
    "itself": around_itself,
    "endless": lambda: endless(None),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_claim_is_completed_whatever_its_result_does(till: Till, name: str) -> None:
    def sell(self: Any, order: int) -> Any:  # noqa: ARG001
        return RESULTS[name]()

    for how, row, _ in runs(till, sell):
        assert row.state == State.SUCCEEDED, how
