"""Two schools to try, each with a teacher of its own."""

from __future__ import annotations

import secrets

from django.contrib.auth import get_user_model

from .models import Course, School, Student

SCHOOLS = {
    "north": ("North School", ["Ada", "Ben"], {"Algebra": 6, "Baroque music": 4}),
    "south": ("South School", ["Cem", "Dora"], {"Chemistry": 6}),
}


def make_samples() -> dict[str, str]:
    """Make what is missing of them; the passwords of the teachers who are new, by their names."""
    passwords = {}
    users = get_user_model()._default_manager
    for slug, (name, students, courses) in SCHOOLS.items():
        school, _ = School.objects.get_or_create(slug=slug, defaults={"name": name})
        for student in students:
            Student.objects.get_or_create(school=school, name=student)
        for title, weeks in courses.items():
            Course.objects.get_or_create(school=school, title=title, defaults={"weeks": weeks})
        teacher = users.filter(username=f"teacher-{slug}").first()
        if teacher is None:
            passwords[f"teacher-{slug}"] = password = secrets.token_urlsafe(9)
            teacher = users.create_user(f"teacher-{slug}", password=password)
        school.teachers.add(teacher)
    return passwords
