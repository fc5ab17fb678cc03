"""The generation of a plan: many paid steps, each taken once."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from django.db import InterfaceError, OperationalError

from django_idempotent_tasks import IdempotentTask

from . import author
from .models import StudyPlan, begin_plan


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
def generate_plan(self: Any, *, school: str, student_id: int, course_id: int) -> None:  # noqa: ARG001  the scope
    """Write a plan, week by week.

    A worker that is killed costs the week that it was at: the next attempt gets the others from the ledger.
    A call that was cancelled, or replaced by another attempt, ends at its next step.
    """
    work = self.idempotency
    plan = StudyPlan.objects.get(pk=work.step("plan", begin_plan, student_id, course_id))
    course, student = plan.course, plan.student
    for number in range(1, course.weeks + 1):
        name = f"week {number}"
        work.progress(number - 1, course.weeks, f"writing {name}")
        week = work.step(
            name,
            author.write_week,
            course.title,
            student.name,
            number,
            idempotency_key=work.downstream_key(name),
            external=True,
        )
        work.step(f"save {name}", plan.keep, week, attempt=work.attempt)
    work.progress(course.weeks, course.weeks, "all weeks are written")
    with work.complete() as done:
        plan.finish()
        done.result = {"plan": plan.pk, "cents": sum(plan.week_set.values_list("cents", flat=True))}
