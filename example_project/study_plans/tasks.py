"""The generation of a plan: many paid steps, each kept as soon as it is there."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from django.db import InterfaceError, OperationalError

from django_idempotent_tasks import IdempotentTask

from . import author
from .models import StudyPlan, Superseded


@shared_task(
    base=IdempotentTask,
    bind=True,
    # Refused where the button is clicked, and not lost when the broker is away.
    reserve=True,
    key=("student_id", "course_id"),
    scope="school",
    # Unique while it is unfinished: a finished plan may be made anew at once.
    retention=0,
    lease=20,
    max_retries=5,
    retry_backoff=True,
    autoretry_for=(InterfaceError, OperationalError),
    soft_time_limit=1200,
    time_limit=1260,
)
def generate_plan(self: Any, *, school: str, student_id: int, course_id: int) -> dict[str, int] | None:  # noqa: ARG001  the scope
    """Write what is missing of a plan, week by week.

    A worker that is killed costs the week that it was at: the next attempt finds the others. A call
    that was cancelled, or replaced by another attempt, hears of it before the next week.
    """
    work = self.idempotency
    plan = StudyPlan.objects.begun(
        work.downstream_key("plan"), student_id=student_id, course_id=course_id, token=work.token
    )
    course, student = plan.course, plan.student
    for number in plan.missing():
        work.progress(number - 1, course.weeks, f"writing week {number}")
        week = author.write_week(
            course.title, student.name, number, idempotency_key=work.downstream_key(f"week {number}")
        )
        if work.lost:
            return None
        try:
            plan.keep(week, token=work.token, attempt=work.attempt)
        except Superseded:
            return None
    work.progress(course.weeks, course.weeks, "all weeks are written")
    with work.complete() as done:
        plan.finish()
        done.result = {"plan": plan.pk, "cents": sum(plan.week_set.values_list("cents", flat=True))}
    return None
