"""A reader in a process of their own, who pastes one page's blocks into a new project and runs them.

``python -m tests.docs.reader`` in an empty directory makes the project; with a page's path it reads that page
in the project. The database is SQLite, and the broker is this process's memory.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from queue import Empty
from typing import Any

import django
from django.core.checks import CheckMessage, run_checks
from django.core.management import call_command
from kombu.utils import json as wire

from tests.docs.pages import SETTING_UP, TUTORIAL, Block, blocks

#: Written behind what the page says: no server is needed, and an app that the page names again is there once.
ENDS_SETTINGS = """
CELERY_BROKER_URL = "memory://"
CELERY_BROKER_TRANSPORT_OPTIONS = {}
INSTALLED_APPS = list(dict.fromkeys(INSTALLED_APPS))
"""


def read(page: Path) -> None:
    """Everything that the page asks for, in its order."""
    shown = [block for block in blocks(page) if block.is_run]
    for block in shown:
        paste(block)
    set_up({block.module for block in shown if block.module})
    print("Checks in production:", *sorted(str(each.id) for each in checks_in_production()))
    shell: dict[str, Any] = {}
    for block in shown:
        if block.is_shell:
            run(block, shell)
            work()


def begin() -> None:
    """The project and the app of the tutorial, in this directory."""
    for words in (["startproject", "proj", "."], ["startapp", "shop"]):
        subprocess.run([sys.executable, "-m", "django", *words], check=True)
    for block in blocks(TUTORIAL):
        if block.file in SETTING_UP:
            paste(block)


def paste(block: Block) -> None:
    """At the end of the file that its first line names."""
    if block.file is not None:
        with Path(block.file).open("a") as file:
            file.write(f"\n\n{block.text}")


def set_up(modules: set[str]) -> None:
    """What is pasted is imported, and tables are made; a warning of a check is an error here."""
    with Path("proj/settings.py").open("a") as file:
        file.write(ENDS_SETTINGS)
    sys.path.insert(0, str(Path.cwd()))
    os.environ["DJANGO_SETTINGS_MODULE"] = "proj.settings"
    name_the_tasks_framework()
    django.setup()
    call_command("makemigrations", "shop", verbosity=0)
    call_command("migrate", verbosity=0)
    for module in sorted(modules):
        import_module(module)
    call_command("check", databases=["default"], fail_level="WARNING")


def name_the_tasks_framework() -> None:
    """Before Django 6.0 a package has it, which the page says."""
    if find_spec("django.tasks") is None and find_spec("django_tasks") is not None:
        sys.modules["django.tasks"] = import_module("django_tasks")


def checks_in_production() -> list[CheckMessage]:
    """What ``check`` says of the same project on PostgreSQL and Redis; neither is asked."""
    with as_in_production():
        return run_checks()


@contextmanager
def as_in_production() -> Iterator[None]:
    """The names of the servers, which is all that these checks read of them."""
    from celery import current_app  # noqa: PLC0415  of the project, which is there now
    from django.db import connection  # noqa: PLC0415

    there: Any = connection
    conf: Any = current_app.conf
    before = there.vendor, conf.broker_url
    there.vendor, conf.broker_url = "postgresql", "redis://127.0.0.1:9"
    yield
    there.vendor, conf.broker_url = before


def run(block: Block, shell: dict[str, Any]) -> None:
    """In the one shell of the page; a failure is shown at the page's own line."""
    code = "\n" * (block.line - 1) + block.text
    exec(compile(code, str(block.page), "exec", dont_inherit=True), shell)  # noqa: S102


def work() -> None:
    """Run what was sent, until nothing waits; a sweeper lets batches follow their chunks."""
    from django_idempotent_tasks.models import Batch  # noqa: PLC0415  once Django is set up

    take()
    while Batch.objects.filter(finished_at=None).exists() and sweep():
        take()


def sweep() -> bool:
    """Whether anything came of a look at the batches."""
    from celery import current_app  # noqa: PLC0415

    from django_idempotent_tasks.ledger.stores import get_store  # noqa: PLC0415
    from django_idempotent_tasks.sweeper.batches import Following  # noqa: PLC0415
    from django_idempotent_tasks.sweeper.sweep import sweep_once  # noqa: PLC0415

    following, store, reserved = Following(current_app), get_store(), 0
    while (found := following.go_on(store)).goes_on:
        reserved += found.reserved
    return bool(reserved + found.reserved + sweep_once(current_app, store))


def take() -> None:
    """Each message of the queue, as a worker that never waits."""
    from celery import current_app  # noqa: PLC0415

    name = current_app.conf.task_default_queue
    with current_app.connection_for_read() as connection, connection.SimpleQueue(name) as queue:
        while (message := waiting(queue)) is not None:
            message.ack()
            args, kwargs, _embed = wire.loads(message.body)
            headers = {"idempotency": message.headers["idempotency"]}
            task = current_app.tasks[message.headers["task"]]
            task.apply(args, kwargs, task_id=message.headers["id"], headers=headers, throw=False)


def waiting(queue: Any) -> Any:
    """The next message; None where there is none."""
    try:
        return queue.get_nowait()
    except Empty:
        return None


if __name__ == "__main__":
    read(Path(sys.argv[1])) if sys.argv[1:] else begin()
