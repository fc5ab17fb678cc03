"""Who may see what: teachers what belongs to their school, superusers what belongs to any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.http import Http404

from django_idempotent_tasks import get_key

from .models import Course, School, Student, StudyPlan
from .tasks import generate_plan

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from django_idempotent_tasks.models import IdempotencyKey


def schools_of(user: Any) -> QuerySet[School]:
    """The schools that a signed-in user works for."""
    return School.objects.all() if user.is_superuser else School.objects.filter(teachers=user)


@dataclass(frozen=True, slots=True)
class Pair:
    """A student and a course of one school: what a plan is made for."""

    school: School
    student: Student
    course: Course

    @classmethod
    def of(cls, user: Any, school: str, student_id: int, course_id: int) -> Pair:
        """The pair, for this user. Raises Http404 for what is not there, or is another school's."""
        found = schools_of(user).filter(slug=school).first()
        student = Student.objects.filter(school=found, pk=student_id).first()
        course = Course.objects.filter(school=found, pk=course_id).first()
        if found is None or student is None or course is None:
            raise Http404
        return cls(found, student, course)

    @property
    def key(self) -> tuple[int, int]:
        """As the task's own ``key`` names it."""
        return self.student.pk, self.course.pk

    @property
    def arguments(self) -> dict[str, Any]:
        """Those of the task."""
        return {"school": self.school.slug, "student_id": self.student.pk, "course_id": self.course.pk}

    @property
    def row(self) -> IdempotencyKey | None:
        """The ledger's row; None before the first click."""
        return get_key(generate_plan, idempotency_key=self.key, scope=self.school.slug)

    @property
    def plan(self) -> StudyPlan | None:
        """The newest plan."""
        return StudyPlan.objects.filter(student=self.student, course=self.course).first()
