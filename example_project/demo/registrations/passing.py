"""Passes judgement on the second act: prints the figures, and what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django_idempotent_tasks.models import DuplicateAttempt, IdempotencyKey
from example_project.registrations.report import report_of
from example_project.registrations.tasks import print_badge, register

from ..judging.observe import ask
from ..judging.report import print_kinds
from .verdict import judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from example_project.registrations.models import Upload

    from ..chaos import Chaos
    from ..judging.report import Report
    from ..stage import Stage
    from .bank import Bank
    from .evidence import Evidence
    from .sheet import Sheet
    from .verdict import Judged


@dataclass(frozen=True, slots=True)
class Played:
    """Who took part. ``alone`` is how many rows were done without a broker."""

    stage: Stage
    sheet: Sheet
    evidence: Evidence
    chaos: Chaos
    bank: Bank
    uploads: list[Upload]
    reconciled: str
    alone: int


def pass_judgement(played: Played, report: Report, *, quiet: bool) -> bool:
    """Print the figures and the problems, and return whether there are none."""
    judged = judge(played.sheet, played.evidence.outcome())
    problems = tuple(_problems(played, quiet=quiet))
    report.table({**_figures(played, judged), "seconds": f"{report.seconds:.1f}"})
    print_kinds(
        {
            "lost": judged.lost,
            "doubled": judged.doubled,
            "unexpected": judged.unexpected,
            "wrong": judged.wrong,
            "other": problems,
        }
    )
    holds = judged.holds and not problems
    report.verdict(f"{played.sheet.rows} rows, each with its right end, once", holds=holds)
    return holds


def _problems(played: Played, *, quiet: bool) -> Iterator[str]:
    """Say what kept the run from ending, or from showing anything."""
    yield from played.bank.surprises
    if not quiet:
        yield "work was left when the time was over"
    if len({upload.pk for upload in played.uploads}) != 1:
        yield "the same file became two uploads"
    if report_of(played.evidence.upload).state != "finished":
        yield f"the upload is {report_of(played.evidence.upload).state}"
    if not (played.chaos.children_killed and played.chaos.workers_killed):
        yield "nothing was killed, so nothing was shown"
    if not played.bank.lost or "asked for 0" in played.reconciled:
        yield "no webhook was lost, so nothing was shown"
    if not played.alone:
        yield "nothing was done without a broker"
    if len(played.stage.alive()) != len(played.stage.workers):
        yield "a worker ended, or lacks a child"


def _figures(played: Played, judged: Judged) -> dict[str, object]:
    found = report_of(played.evidence.upload)
    chunks = IdempotencyKey.objects.filter(task=register.name)
    badges = IdempotencyKey.objects.filter(task=print_badge.name)
    gateway = ask(played.stage.gateway_address, "/stats")
    sheets = ask(played.stage.printer_address, "/sheets")
    return {
        "rows": played.sheet.rows,
        "times the file was sent": len(played.uploads),
        "children killed": played.chaos.children_killed,
        "workers killed": played.chaos.workers_killed,
        "chunks": chunks.count(),
        "chunks that lost an owner": chunks.filter(crashes__gt=0).count(),
        "badges that lost an owner": badges.filter(crashes__gt=0).count(),
        "rows registered": found.ok,
        "rows fatal": found.fatal,
        "rows in review": found.manual_review,
        "rows retryable before the redrive": list(played.evidence.first.values()).count("retryable"),
        "rows retryable": found.retryable,
        "gateway keys called twice": gateway["keys_called_twice"],
        "webhooks sent": played.bank.sent,
        "webhooks never sent": len(played.bank.lost),
        "duplicates refused": DuplicateAttempt.objects.filter(digest__in=badges.values("digest")).count(),
        "paid": found.paid,
        "badges printed": len(sheets["sheets"]),
        "calls of the printer": sheets["calls"],
        "rows done without a broker": played.alone,
        "lost": len(judged.lost),
        "doubled": len(judged.doubled),
    }
