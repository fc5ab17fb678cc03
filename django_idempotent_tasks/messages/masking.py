"""Keeps the values of a task's ``sensitive`` arguments out of messages' descriptions, errors and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from celery.utils.saferepr import saferepr

from ..conf.options import Policy
from ..identity.text import HIDDEN

#: Fewest characters of a value that is masked in texts: shorter values are in every text by chance.
SHORTEST = 4
#: Characters of a description, as in Celery.
REPR_LIMIT = 1024


def masked_reprs(policy: Policy, args: Any, kwargs: Any) -> dict[str, str]:
    """``argsrepr`` and ``kwargsrepr`` without sensitive values; nothing for a task that has none.

    Celery puts both into the message's header, from where events (flower), worker logs and
    django-celery-results take them.
    """
    hidden = policy.sensitive
    if not hidden:
        return {}
    args, kwargs = _masked(policy, args or (), kwargs or {})
    return {"argsrepr": saferepr(args, REPR_LIMIT), "kwargsrepr": saferepr(kwargs, REPR_LIMIT)}


def _masked(policy: Policy, args: Any, kwargs: Any) -> tuple[Any, Any]:
    hidden, name_at = policy.sensitive, policy.key_rules.binder.name_at
    shown = tuple(HIDDEN if name_at(place) in hidden else value for place, value in enumerate(args))
    return shown, {name: HIDDEN if name in hidden else value for name, value in kwargs.items()}


def sensitive_texts(policy: Policy, args: Any, kwargs: Any) -> list[str]:
    """The texts of a call's sensitive values of 4 characters and more, the longest first."""
    hidden = policy.sensitive
    if not hidden:
        return []
    name_at = policy.key_rules.binder.name_at
    values = [value for place, value in enumerate(args or ()) if name_at(place) in hidden]
    values += [value for name, value in (kwargs or {}).items() if name in hidden]
    return sorted({text for text in _texts(values) if len(text) >= SHORTEST}, key=len, reverse=True)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, str | int | float):
        yield str(value)
