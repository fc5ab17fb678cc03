"""Registers the app with Django."""

from __future__ import annotations

from django.apps import AppConfig


class StudyPlansConfig(AppConfig):
    """The study plans app."""

    name = "example_project.study_plans"
    label = "study_plans"
    verbose_name = "Study plans"
