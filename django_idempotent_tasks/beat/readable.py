"""Says why beat cannot read a periodic task, and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from celery import schedules
from django.core.exceptions import ValidationError
from kombu.utils.json import loads

from ..exceptions import ConfigurationError
from ..identity.text import harmless
from ..ledger.encoding import describe

#: Columns of JSON, with the type that each must hold.
_JSON = (("args", list, "a list"), ("kwargs", dict, "an object"), ("headers", dict, "an object"))
#: How many characters of a problem are shown.
LONGEST = 500


@dataclass(frozen=True, slots=True)
class Aside:
    """A periodic task that beat has set aside: beat does not send it until it is edited."""

    pk: int
    name: str
    problem: str


def check(model: Any) -> None:
    """Raise ConfigurationError for what django-celery-beat's own entry would disable, or send in vain."""
    if not model.task.strip():
        msg = f"{model.name} names no task; edit the periodic task."
        raise ConfigurationError(msg)
    for name, shape, kind in _JSON:
        try:
            found = loads(getattr(model, name) or "null")
        except Exception:  # noqa: BLE001  what "__type__" names in it may raise anything
            msg = f"The {name} of {model.name} are not JSON; edit the periodic task."
            raise ConfigurationError(msg) from None
        if not isinstance(found, shape | None):
            msg = f"The {name} of {model.name} are not {kind} of JSON; edit the periodic task."
            raise ConfigurationError(msg)
    if model.scheduler is None:
        msg = f"{model.name} has no schedule; edit the periodic task."
        raise ConfigurationError(msg)


def check_schedule(schedule: Any, name: str) -> None:
    """Raise ConfigurationError for an interval that would be due at every moment."""
    every = vars(schedule).get("run_every") if type(schedule) is schedules.schedule else None
    if every is not None and every <= timedelta(0):
        msg = f"The interval of {name} is not above 0; edit the periodic task's schedule."
        raise ConfigurationError(msg)


def problem_of(error: Exception, crontab: int | None) -> str:
    """Why an entry cannot be read, and the remedy; ``crontab`` is the id of its crontab."""
    if isinstance(error, ConfigurationError):
        return harmless(error)[:LONGEST]
    if (
        isinstance(error, ValidationError) and crontab is not None
    ):  # raised by the field that reads time zones
        return _zone_problem("; ".join(error.messages), crontab)
    what = harmless(f"{type(error).__name__}: {describe(error)}")[:LONGEST]
    return f"Beat cannot read it ({what}); edit the periodic task or its schedule."


def _zone_problem(what: str, crontab: int) -> str:
    """The remedy for an unknown time zone, in a shell: the admin cannot open such a crontab either."""
    return (
        f"Its crontab's time zone is unknown on this host ({harmless(what)[:LONGEST]}): install tzdata here"
        " (pip install tzdata), or give it another zone in manage.py shell:"
        f" CrontabSchedule.objects.filter(pk={crontab}).update(timezone='UTC')."
    )
