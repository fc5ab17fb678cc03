"""The app that the contract's worker processes run; its tasks are in another module, as in most projects."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery, signals

from tests.processes.plain_celery.notes import note

app = Celery(
    "contract", broker=os.environ.get("CELERY_BROKER_URL"), include=["tests.processes.plain_celery.tasks"]
)
app.conf.update(
    broker_transport_options={
        "global_keyprefix": os.environ.get("CONTRACT_PREFIX", "contract:"),
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    },
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=1,
    worker_send_task_events=False,
)


@signals.worker_init.connect
def _note_init(sender: Any = None, **_kwargs: object) -> None:
    note("worker_init", tasks=[name for name in sender.app.tasks if name.startswith("contract.")])
    if os.environ.get("DJANGO_SETTINGS_MODULE"):
        _note_closing(sender.app)


def _note_closing(app: Celery) -> None:
    """Replace what closes Django's connections around tasks, and what closes them after a fork."""
    (fixup,) = app._fixups  # type: ignore[attr-defined]
    for name in ("close_database", "_close_database"):
        setattr(fixup.worker_fixup, name, lambda name=name, **_kwargs: note(name))


@signals.celeryd_after_setup.connect
def _raise_after_setup(**_kwargs: object) -> None:
    match os.environ.get("CONTRACT_AFTER_SETUP"):
        case "exit":
            raise SystemExit(3)
        case "error":
            raise ValueError


@signals.task_revoked.connect
def _note_revoked(request: Any = None, **_kwargs: object) -> None:
    note(
        "revoked",
        request.id,
        header=request.headers["idempotency"],
        args=request.args,
        expired=_kwargs["expired"],
    )
