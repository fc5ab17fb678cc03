"""Where each subject has its broker, its locks and its ledger: no subject meets another one's."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from benchmarks.crash_table.subjects import Subject

BROKER = "CELERY_BROKER_URL"
#: The same for this part's processes: Celery obeys the usual one before what an app says.
OWN_BROKER = "BENCH_BROKER_URL"


def take_over_broker() -> None:
    """Let apps choose their brokers, here and in the processes that this one starts."""
    os.environ[OWN_BROKER] = os.environ.pop(BROKER)


def redis_url(subject: Subject) -> str:
    """The subject's database on the broker, which also has its results and locks."""
    return _with_path(OWN_BROKER, str(subject.redis))


def ledger_url(subject: Subject) -> str:
    """The subject's PostgreSQL database, if it has one."""
    return _with_path("DATABASE_URL", subject.name)


def _with_path(variable: str, path: str) -> str:
    return urlsplit(os.environ[variable])._replace(path=f"/{path}").geturl()
