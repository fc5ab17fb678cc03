"""Schools with their students and courses, and the plans that were written for them, week by week."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
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


class StudyPlan(models.Model):
    """One plan, from the first step of its generation on."""

    student = models.ForeignKey(Student, on_delete=models.CASCADE)
    course = models.ForeignKey(Course, on_delete=models.CASCADE)
    begun_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-pk",)
        indexes = (models.Index(fields=["student", "course", "-id"], name="study_plan_newest"),)

    def __str__(self) -> str:
        return f"{self.course} for {self.student}"

    def keep(self, week: Week, *, attempt: int) -> None:
        """Save one week, and which attempt did."""
        self.week_set.create(**week, attempt=attempt)

    def finish(self) -> None:
        """All weeks are there."""
        self.finished_at = timezone.now()
        self.save(update_fields=["finished_at"])


def begin_plan(student_id: int, course_id: int) -> int:
    """Make an empty plan; its number."""
    return StudyPlan.objects.create(student_id=student_id, course_id=course_id).pk


class PlanWeek(models.Model):
    """One week of a plan, with what it cost and the attempt that saved it."""

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
