"""MariaDB and MySQL compare the ledger's text by its bytes."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations

from ._bytes import compared_by_bytes


class Migration(migrations.Migration):
    """Only MariaDB and MySQL are changed."""

    dependencies: ClassVar = [("django_idempotent_tasks", "0001_ledger")]
    operations: ClassVar = [
        compared_by_bytes(["IdempotencyKey", "AnsweredCall", "DuplicateAttempt", "Leader"]),
    ]
