"""Schools, students and courses to edit, and what was spent for each school."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html

from .models import Course, School, Student

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest


@admin.register(School)
class SchoolAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A school, its teachers, and the clicks that were refused there."""

    list_display = ("name", "slug", "refused")
    search_fields = ("name", "slug")
    filter_horizontal = ("teachers",)

    @admin.display(description="refused clicks")
    def refused(self, school: School) -> str:
        """A link to them, in the ledger's own admin."""
        url = reverse("admin:django_idempotent_tasks_duplicateattempt_changelist")
        return format_html('<a href="{}?scope={}">look at them</a>', url, school.slug)


class OfASchoolAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Students and courses."""

    list_filter = ("school",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("school")


@admin.register(Student)
class StudentAdmin(OfASchoolAdmin):
    """Students by school."""

    list_display = ("name", "school")
    search_fields = ("name",)


@admin.register(Course)
class CourseAdmin(OfASchoolAdmin):
    """Courses by school."""

    list_display = ("title", "school", "weeks")
    search_fields = ("title",)
