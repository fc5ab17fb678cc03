"""``manage.py seed_study_plans``: two schools to try, each with a teacher of its own."""

from __future__ import annotations

import secrets
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand

from example_project.study_plans.models import Course, School, Student

SCHOOLS = {
    "north": ("North School", ["Ada", "Ben"], {"Algebra": 6, "Baroque music": 4}),
    "south": ("South School", ["Cem", "Dora"], {"Chemistry": 6}),
}


class Command(BaseCommand):
    """Safe to run again: what is there stays, passwords too."""

    help = "Make two schools to try, each with a teacher whose password is printed once."

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002
        """Make what is missing."""
        for slug, (name, students, courses) in SCHOOLS.items():
            school, _ = School.objects.get_or_create(slug=slug, defaults={"name": name})
            for student in students:
                Student.objects.get_or_create(school=school, name=student)
            for title, weeks in courses.items():
                Course.objects.get_or_create(school=school, title=title, defaults={"weeks": weeks})
            school.teachers.add(self._teacher(f"teacher-{slug}"))

    def _teacher(self, name: str) -> Any:
        users = get_user_model()._default_manager
        user = users.filter(username=name).first()
        if user is None:
            password = secrets.token_urlsafe(9)
            user = users.create_user(name, password=password)
            self.stdout.write(f"{name}: {password}")
        return user
