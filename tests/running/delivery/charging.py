"""Tasks that make an external call at most once, and what they raise before, inside and after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.till import Counter, Till


class Unknown(Exception):
    """An error that nobody has named."""


class Gone(Exception):
    """Named as transient."""


class Declined(Exception):
    """Named as permanent."""


class Foreseen(Exception):
    """Named as expected."""


class Quiet(Exception):
    """Named in Celery's ``throws`` alone, which says how it is logged."""


Deed = Callable[[Any, Counter], Any]

NAMED: dict[str, Any] = {
    "transient_errors": (Gone,),
    "permanent_errors": (Declined,),
    "expected_errors": (Foreseen,),
    "throws": (Quiet,),
    "max_retries": 3,
}


def charge(till: Till, shop: Counter, deed: Deed, **options: Any) -> Any:
    """A task that does ``deed``."""

    @till.guarded(**{"mode": "leased", "at_most_once": True, **NAMED, **options})
    def pay(self: Any, order: int) -> Any:  # noqa: ARG001
        shop.starts.append({})
        return deed(self, shop)

    return pay


def inside(error: BaseException) -> Deed:
    """Raise inside the external call."""

    def deed(task: Any, _shop: Counter) -> None:
        with task.idempotency.external():
            raise error

    return deed


def after(error: BaseException) -> Deed:
    """Raise after it."""

    def deed(task: Any, _shop: Counter) -> None:
        with task.idempotency.external():
            pass
        raise error

    return deed


def before(error: BaseException) -> Deed:
    """Raise before it."""

    def deed(_task: Any, _shop: Counter) -> None:
        raise error

    return deed
