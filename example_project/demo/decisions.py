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
    """How many dead letters of each kind there were, and what became of them."""

    fatal: int = 0
    retryable: int = 0
    review: int = 0
    redriven: int = 0
    resolved: int = 0
    discarded: int = 0


def decide(plan: Plan, report: Report) -> Decisions:
    """Redrive what the outage left, correct one amount, settle another by hand, put declined cards away."""
    made = Decisions(_count(Category.FATAL), _count(Category.RETRYABLE), _count(Category.MANUAL_REVIEW))
    report.step(f"dead letters: {made.fatal} fatal, {made.retryable} retryable, {made.review} in review")
    typo, by_hand = plan.oversized
    _corrected(typo)
    result = json.dumps({"charge": "by hand", "stored": False})
    _idem("resolve", str(_key(by_hand).digest), "--done", result, reason="paid by bank transfer")
    made.resolved = 1
    told = [_idem("discard", "--signature", each, reason="the customer was told") for each in _declined()]
    made.discarded = sum(answer["discarded"] for answer in told)
    report.step("corrected one amount, settled one by hand, put the declined cards away")
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


def _declined() -> list[str]:
    """The signature of declined cards, the same for all of them; none where little was sent."""
    groups = _idem("list", "--category", "fatal")["groups"]
    return [str(group["signature"]) for group in groups if "CardDeclined" in group["error"]]


def _idem(*words: str, reason: str = "") -> dict[str, Any]:
    """Run ``manage.py idem dead-letters ...`` and return its JSON document."""
    printed = StringIO()
    sure = ("--reason", reason, "--yes") if reason else ()
    call_command("idem", "dead-letters", *words, *sure, "--format", "json", stdout=printed)
    return dict(json.loads(printed.getvalue()))
