"""Connects what ``TELEMETRY`` asks for, when Django starts; the libraries are imported only then."""
# ruff: noqa: PLC0415  each library is imported where it is asked for

from __future__ import annotations

from ..conf import settings
from ..exceptions import ConfigurationError

_UID = "django_idempotent_tasks.metrics"


def connect() -> None:
    """Listen for each name in ``TELEMETRY``; wrong settings are for the checks to say."""
    try:
        chosen = settings().telemetry
    except ConfigurationError:
        return
    for name in chosen:
        _CONNECT[name]()


def _prometheus() -> None:
    from . import prometheus
    from .listener import Listener

    Listener(prometheus.sink()).connect(f"{_UID}.prometheus")


def _opentelemetry() -> None:
    from . import opentelemetry
    from .listener import Listener

    Listener(opentelemetry.sink()).connect(f"{_UID}.opentelemetry")
    opentelemetry.connect_spans()


def _sentry() -> None:
    from . import sentry

    sentry.connect()


_CONNECT = {"prometheus": _prometheus, "opentelemetry": _opentelemetry, "sentry": _sentry}
