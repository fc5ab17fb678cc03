"""Schools with their students and courses, and the plans that were written for them, week by week."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models, transaction
from django.utils import timezone

if TYPE_CHECKING:
    from .author import Week


class School(models.Model):
    """A tenant. The slug is its scope in the ledger of keys, so that its keys are its own."""

    slug = models.SlugField(primary_key=True, max_length=50)
    name = models.CharField(max_length=100)
    teachers = models.ManyToManyField(settings.AUTH_USER_MODEL, blank=True)

    class Meta:
        ordering = ("slug",)

    def __str__(self) -> str:
        return self.name


class Student(models.Model):
    """Whom a plan is for."""

    school = models.ForeignKey(School, on_delete=models.CASCADE)
    name = models.CharField(max_length=100)

    class Meta:
        ordering = ("name", "pk")

    def __str__(self) -> str:
        return self.name


class Course(models.Model):
    """What a plan is about."""

    school = models.ForeignKey(School, on_delete=models.CASCADE)
    title = models.CharField(max_length=100)
    weeks = models.PositiveSmallIntegerField(default=6)

    class Meta:
        ordering = ("title", "pk")

    def __str__(self) -> str:
        return self.title


class Superseded(Exception):
    """Another attempt writes this plan now."""


class StudyPlanManager(models.Manager["StudyPlan"]):
    """Adds the plan of one generation."""

    def begun(self, reference: str, *, student_id: int, course_id: int, token: int) -> StudyPlan:
        """The plan that an attempt writes: begun by it, or by one before it that did not end."""
        given = {"student_id": student_id, "course_id": course_id, "token": token}
        plan, _ = self.get_or_create(reference=reference, defaults=given)
        return plan


class StudyPlan(models.Model):
    """One plan. ``reference`` is the same in every attempt at it, ``token`` that of the last one."""

    student = models.ForeignKey(Student, on_delete=models.CASCADE)
    course = models.ForeignKey(Course, on_delete=models.CASCADE)
    reference = models.CharField(max_length=40, unique=True)
    token = models.PositiveIntegerField()
    begun_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    objects = StudyPlanManager()

    class Meta:
        ordering = ("-pk",)
        indexes = (models.Index(fields=["student", "course", "-id"], name="study_plan_newest"),)

    def __str__(self) -> str:
        return f"{self.course} for {self.student}"

    def missing(self) -> list[int]:
        """The weeks that are not written yet."""
        written = set(self.week_set.values_list("number", flat=True))
        return [number for number in range(1, self.course.weeks + 1) if number not in written]

    def keep(self, week: Week, *, token: int, attempt: int) -> None:
        """Save one week. Raises :class:`Superseded` when a later attempt has saved one: this one is over.

        The comparison locks the plan's row to the end of the transaction, so none can come in between.
        """
        with transaction.atomic():
            mine = StudyPlan.objects.filter(pk=self.pk, token__lte=token)
            if not mine.update(token=token):
                raise Superseded
            PlanWeek.objects.bulk_create(
                [PlanWeek(plan=self, number=week.number, text=week.text, cents=week.cents, attempt=attempt)],
                ignore_conflicts=True,
            )

    def finish(self) -> None:
        """All weeks are there."""
        self.finished_at = timezone.now()
        self.save(update_fields=["finished_at"])


class PlanWeek(models.Model):
    """One step of a generation, with what it cost and the attempt that paid for it."""

    plan = models.ForeignKey(StudyPlan, on_delete=models.CASCADE, related_name="week_set")
    number = models.PositiveSmallIntegerField()
    text = models.TextField()
    cents = models.PositiveIntegerField()
    attempt = models.PositiveSmallIntegerField()

    class Meta:
        ordering = ("number",)
        constraints = (models.UniqueConstraint(fields=["plan", "number"], name="one_row_per_week"),)

    def __str__(self) -> str:
        return f"week {self.number}"
