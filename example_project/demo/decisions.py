"""Near the end a person decides on what failed, with the command that is there for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any

from django.core.management import call_command

from django_idempotent_tasks.models import DeadLetter, IdempotencyKey
from django_idempotent_tasks.states import Category
from example_project.payments.tasks import handle_event

if TYPE_CHECKING:
    from .judging.report import Report
    from .traffic import Delivery, Plan

#: What the customer meant.
RIGHT_AMOUNT = "199.00"


@dataclass
class Decisions:
    """How many dead letters of each kind there were, what became of them, and how many ends were expected."""

    expected: int = 0
    fatal: int = 0
    retryable: int = 0
    review: int = 0
    redriven: int = 0
    resolved: int = 0


def decide(plan: Plan, report: Report) -> Decisions:
    """Redrive what the outage left, correct one amount, and settle another by hand.

    Declined cards wait for nobody.
    """
    made = Decisions(
        expected=DeadLetter.undecided.filter(category=Category.EXPECTED).count(),
        fatal=_count(Category.FATAL),
        retryable=_count(Category.RETRYABLE),
        review=_count(Category.MANUAL_REVIEW),
    )
    report.step(f"declined cards, on which nobody has to decide: {made.expected}")
    report.step(f"dead letters: {made.fatal} fatal, {made.retryable} retryable, {made.review} in review")
    typo, by_hand = plan.oversized
    _corrected(typo)
    result = json.dumps({"charge": "by hand", "stored": False})
    _idem("resolve", str(_key(by_hand).digest), "--done", result, reason="paid by bank transfer")
    made.resolved = 1
    report.step("corrected one amount, settled one by hand")
    redriven = _idem("redrive", "--category", "retryable", "--wait", reason="the bank is up again")
    made.redriven = 1 + redriven.get("redriven", 0)
    report.step(f"redrove {redriven.get('redriven', 0)} whose bank was down")
    return made


def _corrected(delivery: Delivery) -> None:
    """Run the same call again, with the amount that was meant."""
    key = _key(delivery)
    call = json.loads(key.message or "")
    arguments = {"args": call["args"], "kwargs": call["kwargs"] | {"amount": RIGHT_AMOUNT}}
    _idem("redrive", str(key.digest), "--arguments", json.dumps(arguments), reason="two zeros too many")


def _key(delivery: Delivery) -> IdempotencyKey:
    keys = IdempotencyKey.objects.filter(task=handle_event.name)
    return keys.get(scope=delivery.tenant, key_text=delivery.event["id"])


def _count(category: Category) -> int:
    return DeadLetter.objects.filter(category=category).count()


def _idem(*words: str, reason: str = "") -> dict[str, Any]:
    """Run ``manage.py idem dead-letters ...`` and return its JSON document."""
    printed = StringIO()
    sure = ("--reason", reason, "--yes") if reason else ()
    call_command("idem", "dead-letters", *words, *sure, "--format", "json", stdout=printed)
    return dict(json.loads(printed.getvalue()))
