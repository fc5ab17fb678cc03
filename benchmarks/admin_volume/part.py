"""Opens the pages of the admin at millions of keys, and says what each takes of the database."""

from __future__ import annotations

import argparse
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from uuid import UUID

from django.db import connection
from django.test import Client
from django.urls import reverse

from benchmarks.admin_volume.ledger import make
from benchmarks.claims.tables import known_digest
from benchmarks.figures.goals import ADMIN_PAGE, at_most
from benchmarks.figures.part import Report, machine_line
from benchmarks.figures.table import figure, goal, render
from benchmarks.machine.machine import machine_now
from benchmarks.throughput.fleet import BrokenBenchmark
from django_idempotent_tasks.models import DeadLetter, IdempotencyKey
from example_project.servers import Servers

ROWS, ROWS_QUICK = 5_000_000, 100_000
OPENED = 5
#: Nothing that is opened may take as long as this, in milliseconds: it would be no page.
BROKEN = 5000.0

NOTES = """\
Each page is opened several times by Django's test client, in this process; the milliseconds are those
of the database over all statements of the page: the first time, and the median of the others.
shared_buffers is the default.
"""


@dataclass(frozen=True)
class Opened:
    """One page: milliseconds at first and then, statements, and rows that it listed."""

    first: float
    usual: float
    statements: int


class Clock:
    """Adds up the time of statements."""

    def __init__(self) -> None:
        self.seconds, self.statements = 0.0, 0

    def __call__(self, execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        began = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            self.seconds += time.perf_counter() - began
            self.statements += 1

    def running(self) -> AbstractContextManager[None]:
        """Inside, it counts."""
        return connection.execute_wrapper(self)


def run(options: argparse.Namespace, servers: Servers, _logs: Path) -> Report:
    """Fill, and open each page. Raises BrokenBenchmark on a server that is not ours."""
    if servers.postgres is None:
        raise BrokenBenchmark("admin changes the server's settings and fills it: unset DATABASE_URL.")
    rows = options.keys or (ROWS_QUICK if options.quick else ROWS)
    print(f"filling {rows:,} keys", flush=True)
    filled = make(rows)
    print(filled.text, flush=True)
    client = _operator()
    found = {name: _open(client, url) for name, url in _pages(rows).items()}
    text = "\n\n".join([filled.text, _table(found), NOTES.rstrip(), machine_line(machine_now())])
    slow = [name for name, opened in found.items() if opened.usual > BROKEN]
    data = {name: vars(opened) for name, opened in found.items()}
    return Report(
        text, {"pages": data, "machine": machine_now()}, tuple(f"{name} took seconds" for name in slow)
    )


def _operator() -> Client:
    from django.contrib.auth.models import User  # noqa: PLC0415  needs the settings of this part

    client = Client()
    client.force_login(User.objects.create_superuser("root", password=None))
    return client


def _pages(rows: int) -> dict[str, str]:
    keys, dead, jobs = (_list(model) for model in ("idempotencykey", "deadletter", "failedjob"))
    succeeded = IdempotencyKey.objects.get(digest=known_digest(rows // 2 + 3))
    return {
        "first page of the admin": reverse("admin:index"),
        "index of the app": reverse("admin:app_list", args=["django_idempotent_tasks"]),
        "dashboard": reverse("admin:django_idempotent_tasks_dashboard"),
        "keys": keys,
        "keys, page 100": f"{keys}?p=100",
        "keys, running": f"{keys}?state=2",
        "keys, failed": f"{keys}?state=5",
        "keys, succeeded": f"{keys}?state=7",
        "keys, in review": f"{keys}?state=4",
        "keys, a frequent task": f"{keys}?task=shop.tasks.task_0",
        "keys, an absent task": f"{keys}?task=shop.tasks.none",
        "keys, an absent scope": f"{keys}?scope=nobody",
        "keys, failed of an absent task": f"{keys}?state=5&task=shop.tasks.none",
        "keys, succeeded of a rare task": f"{keys}?state=7&task=shop.tasks.task_99",
        "keys, a task over 24 h ago": f"{keys}?made=over-24h&task=shop.tasks.none",
        "keys, search by task id": f"{keys}?q={succeeded.task_id}",
        "keys, search by digest": f"{keys}?q={succeeded.digest}",
        "keys, periodic runs too": f"{keys}?periodic=shown",
        "keys, only periodic runs": f"{keys}?periodic=only",
        "a key": _page("idempotencykey", succeeded.digest),
        **_dead_letters(dead, jobs),
        **_searches(keys, dead, jobs),
    }


def _dead_letters(dead: str, jobs: str) -> dict[str, str]:
    letter = DeadLetter.objects.order_by("signature", "finished_at")[0]
    signature, redrive = letter.signature, reverse("admin:django_idempotent_tasks_deadletter_redrive_many")
    return {
        "dead letters": dead,
        "dead letters, a signature": f"{dead}?signature={signature}&ended=24h",
        "dead letters, an absent task": f"{dead}?task=shop.tasks.none",
        "dead letters, search": f"{dead}?q={letter.task_id}",
        "dead letters, discarded": f"{dead}?discarded=1",
        "a dead letter": _page("deadletter", letter.digest),
        "redrive all of a signature?": f"{redrive}?signature={signature}",
        "redrive all?": redrive,
        "failed jobs": jobs,
        "failed jobs, an absent task": f"{jobs}?task=shop.tasks.none",
        "duplicates": _list("duplicateattempt"),
        "duplicates, search": f"{_list('duplicateattempt')}?q=none",
        "duplicates by scope": reverse("admin:django_idempotent_tasks_refusals"),
        "duplicates by scope, 24 h": f"{reverse('admin:django_idempotent_tasks_refusals')}?since=24h",
    }


def _searches(keys: str, dead: str, jobs: str) -> dict[str, str]:
    """The one search box, by what an index does not find at once."""
    return {
        "keys, search by a value": f"{keys}?q=4999990",
        "keys, search by an absent value": f"{keys}?q=nothing-like-this",
        "keys, search by a digit": f"{keys}?q=7",
        "keys, search by a task": f"{keys}?q=task_99",
        "keys, search by a scope": f"{keys}?q=tenant-7",
        "failed jobs, search by an absent value": f"{jobs}?q=nothing-like-this",
        "dead letters, search by an absent value": f"{dead}?q=nothing-like-this",
        "refused calls, search by an absent value": f"{_list('duplicateattempt')}?q=nothing-like-this",
    }


def _list(model: str) -> str:
    return reverse(f"admin:django_idempotent_tasks_{model}_changelist")


def _page(model: str, digest: UUID) -> str:
    return reverse(f"admin:django_idempotent_tasks_{model}_change", args=[digest])


def _open(client: Client, url: str) -> Opened:
    taken, statements = [], 0
    for _ in range(OPENED):
        clock = Clock()
        with clock.running():
            answer = client.get(url)
        if answer.status_code != 200:  # noqa: PLR2004
            raise BrokenBenchmark(f"{url} answered {answer.status_code}")
        taken.append(1000 * clock.seconds)
        statements = clock.statements
    return Opened(taken[0], median(taken[1:]), statements)


def _table(found: dict[str, Opened]) -> str:
    headers = ("page", "first, ms", "usual, ms", "statements", "goal", "verdict")
    rows = [
        [
            name,
            figure(one.first, 1),
            figure(one.usual, 1),
            str(one.statements),
            goal(ADMIN_PAGE, "<=", 0),
            at_most(one.usual, ADMIN_PAGE),
        ]
        for name, one in found.items()
    ]
    return render(headers, rows, texts=(0, 5))
