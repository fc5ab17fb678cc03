"""Programs of the shop that are no workers: a process that orders, and one that sweeps."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.processes.reserved.shop import Shop
from tests.support.workers.processes import ROOT, _die_with_parent

#: Sweeps once, as a leader does in its thread.
SWEEP = "from django_idempotent_tasks.sweeper.sweep import sweep_once; sweep_once(app, get_store())"
#: Orders, as a web process does.
ORDER = """
with transaction.atomic():
    Effect.objects.create(key={key!r}, attempt=0, token=0, note="ordered")
    ordering.delay({key!r})
"""
#: Orders many, as a web process does, and stops at a gate now and then; every tenth request fails at its end.
ORDER_MANY = """
def request(number):
    key = "{key}-%d" % number
    with transaction.atomic():
        Effect.objects.create(key=key, attempt=0, token=0, note="ordered")
        ordering.apply_async((key,), **{options!r})
        if number % 10 == 9:
            raise ZeroDivisionError

for lap in range({laps}):
    journal().visit("{key}.%d" % lap)
    for number in range(lap * {size}, (lap + 1) * {size}):
        with suppress(ZeroDivisionError):
            request(number)
"""
_BEGIN = """
from contextlib import suppress
import django
django.setup()
from django.db import transaction
from django_idempotent_tasks.ledger.stores import get_store
from tests.sample.celery import app
from tests.sample.models import Effect
from tests.sample.reserving import ordering
from tests.sample.tasks import journal
"""


@contextmanager
def program(shop: Shop, text: str, *, broker_url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run this text in a process of its own, on the shop's database and that broker; killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", _BEGIN + text],
        cwd=ROOT,
        env={**os.environ, **_environment(shop), "CELERY_BROKER_URL": broker_url},
        stdin=subprocess.DEVNULL,
        preexec_fn=_die_with_parent,  # noqa: PLW1509  no thread of ours holds a lock here
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _environment(shop: Shop) -> Mapping[str, str]:
    return {
        "DJANGO_SETTINGS_MODULE": "tests.sample.settings",
        "DATABASE_URL": shop.site.database_url,
        "PROJ_PREFIX": shop.site.broker.prefix,
        "PROJ_DIRECTORY": str(shop.site.directory),
        "PROJ_RESULT_BACKEND": "disabled://",
        **shop.environment,
    }
