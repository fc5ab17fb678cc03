"""The Django app: connects the listeners, nothing else."""

from __future__ import annotations

from django.apps import AppConfig


class IdempotentTasksConfig(AppConfig):
    """Installs the ledger's models, checks and worker hooks."""

    name = "django_idempotent_tasks"
    verbose_name = "Idempotent tasks"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register checks and connect Celery's worker signals. Touches neither database nor broker."""
        from . import checks, log  # models exist only from here on
        from .metrics.connect import connect as connect_metrics  # models exist only from here on
        from .worker import capture, hooks  # models exist only from here on

        checks.register()
        log.connect()
        capture.connect()
        hooks.connect()
        connect_metrics()
