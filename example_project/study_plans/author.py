"""Stands in for a model behind an API: slow, and billed by the week."""

from __future__ import annotations

import time
from typing import TypedDict

from django.conf import settings

#: What a week costs.
CENTS = 12

_SUBJECTS = ("an overview", "the basics", "worked examples", "exercises", "a longer text", "a mock exam")


class Week(TypedDict):
    """One week of a plan, as the value of a step can be kept."""

    number: int
    text: str
    cents: int


def write_week(course: str, student: str, number: int, *, idempotency_key: str) -> Week:
    """Write a week. A real provider would bill ``idempotency_key`` once, however often it is asked for it."""
    time.sleep(getattr(settings, "STUDY_PLAN_SECONDS", 2.0))
    subject = _SUBJECTS[(number - 1) % len(_SUBJECTS)]
    text = f"{course}: {subject} for {student} ({idempotency_key[:6]})"
    return {"number": number, "text": text, "cents": CENTS}
