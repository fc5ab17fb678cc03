"""``manage.py seed_study_plans``: two schools to try, each with a teacher of its own."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from example_project.study_plans.samples import make_samples


class Command(BaseCommand):
    """Safe to run again: what is there stays, passwords too."""

    help = "Make two schools to try, each with a teacher whose password is printed once."

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002
        """Make what is missing."""
        for name, password in make_samples().items():
            self.stdout.write(f"{name}: {password}")
