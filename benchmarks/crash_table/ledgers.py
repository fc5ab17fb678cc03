"""A PostgreSQL database for each subject that has a ledger: a sweeper must not meet another app's keys."""

from __future__ import annotations

from django.core.management import call_command
from django.db import connection, connections

from benchmarks.crash_table.places import ledger_url
from benchmarks.crash_table.subjects import Subject
from django_idempotent_tasks.models import IdempotencyKey
from example_project.database_url import database_from_url


def create_ledger(subject: Subject) -> None:
    """Create a subject's database with its tables, known to Django under the subject's name."""
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {connection.ops.quote_name(subject.name)}")
    own = {**connection.settings_dict, **database_from_url(ledger_url(subject))}
    connections.databases[subject.name] = own
    call_command("migrate", "django_idempotent_tasks", database=subject.name, verbosity=0)


def key_state(subject: Subject, argument: str) -> str:
    """What the ledger says of the calls with this first argument, for people."""
    rows = IdempotencyKey.objects.using(subject.name).filter(key_text__startswith=f"key={argument},")
    row = rows.first()
    if row is None:
        return "no key"
    return f"key {row.get_state_display()} (attempts {row.attempts}, crashes {row.crashes})"
