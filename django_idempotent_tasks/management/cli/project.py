"""Finds the project's Celery app, which knows the broker and the tasks."""

from __future__ import annotations

from celery import Celery
from celery.app import app_or_default
from celery.loaders.default import Loader as DefaultLoader

from .report import could_not_run


def project_app() -> Celery:
    """The project's app. Raises CommandError where the project has none."""
    app: Celery = app_or_default()
    if app.main == "default" and isinstance(app.loader, DefaultLoader):
        msg = "No Celery app: import it in the __init__.py of your project, as Celery's Django guide says."
        raise could_not_run(msg)
    return app
