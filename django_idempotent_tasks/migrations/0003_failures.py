"""Failed jobs, dead letters, their redrives, and the totals of an hour."""

from django.db import migrations, models

from ._bytes import compared_by_bytes


class Migration(migrations.Migration):
    dependencies = [
        ("django_idempotent_tasks", "0002_binary_collation"),
    ]

    operations = [
        migrations.CreateModel(
            name="DeadLetter",
            fields=[],
            options={
                "verbose_name": "dead letter",
                "permissions": [
                    ("redrive_deadletter", "Can redrive dead letters"),
                    ("resolve_review", "Can decide on keys in review"),
                    ("discard_deadletter", "Can discard dead letters"),
                    ("edit_arguments", "Can change the arguments of a redrive"),
                ],
                "proxy": True,
                "indexes": [],
                "constraints": [],
            },
            bases=("django_idempotent_tasks.idempotencykey",),
        ),
        migrations.AlterModelOptions(
            name="idempotencykey",
            options={
                "permissions": [
                    ("release_key", "Can take a key from its holder"),
                    ("cancel_key", "Can cancel keys"),
                ],
                "verbose_name": "idempotency key",
            },
        ),
        migrations.CreateModel(
            name="FailedJob",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("digest", models.UUIDField(editable=False, null=True)),
                ("token", models.IntegerField(null=True)),
                ("at", models.DateTimeField()),
                ("attempt", models.SmallIntegerField()),
                (
                    "state",
                    models.SmallIntegerField(
                        choices=[
                            (1, "pending"),
                            (2, "running"),
                            (3, "retry"),
                            (4, "review"),
                            (5, "failed"),
                            (6, "cancelled"),
                            (7, "succeeded"),
                        ]
                    ),
                ),
                ("category", models.SmallIntegerField()),
                ("signature", models.CharField(max_length=16)),
                ("task", models.CharField(max_length=255)),
                ("scope", models.CharField(max_length=120, null=True)),
                ("key_text", models.CharField(max_length=255, null=True, verbose_name="key")),
                ("task_id", models.CharField(max_length=255)),
                ("worker", models.CharField(max_length=255)),
                ("error", models.CharField(max_length=255)),
                ("description", models.TextField()),
                ("traceback", models.TextField()),
                ("message", models.TextField(null=True)),
            ],
            options={
                "verbose_name": "failed job",
                "permissions": [
                    ("view_payload", "Can see arguments and results of tasks"),
                    ("view_traceback", "Can see tracebacks of tasks"),
                    ("rerun_failedjob", "Can run a failed job again"),
                ],
                "indexes": [
                    models.Index(fields=["digest", "id"], name="idem_failed_digest"),
                    models.Index(fields=["signature", "at"], name="idem_failed_signature"),
                    models.Index(fields=["task_id"], name="idem_failed_task_id"),
                    models.Index(fields=["at"], name="idem_failed_at"),
                ],
            },
        ),
        migrations.CreateModel(
            name="HourlyCount",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("hour", models.DateTimeField()),
                ("task", models.CharField(max_length=255)),
                ("created", models.IntegerField()),
                ("succeeded", models.IntegerField()),
                ("failed", models.IntegerField()),
                ("duplicates", models.IntegerField()),
                ("crashes", models.IntegerField()),
            ],
            options={
                "verbose_name": "hourly count",
                "constraints": [models.UniqueConstraint(fields=("hour", "task"), name="idem_hourly_task")],
            },
        ),
        migrations.CreateModel(
            name="RedriveOperation",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("created_at", models.DateTimeField()),
                ("created_by", models.CharField(max_length=150)),
                ("reason", models.CharField(max_length=500)),
                ("selection", models.TextField()),
                ("rate", models.IntegerField(null=True)),
                ("total", models.IntegerField()),
                ("redriven", models.IntegerField(default=0)),
                ("skipped", models.IntegerField(default=0)),
                ("last_signature", models.CharField(max_length=16, null=True)),
                ("last_at", models.DateTimeField(null=True)),
                ("last_digest", models.UUIDField(null=True)),
                (
                    "state",
                    models.SmallIntegerField(
                        choices=[(1, "running"), (2, "done"), (3, "stopped")], default=1
                    ),
                ),
                ("finished_at", models.DateTimeField(null=True)),
                ("stopped_by", models.CharField(max_length=150, null=True)),
            ],
            options={
                "verbose_name": "redrive operation",
                "indexes": [models.Index(fields=["state", "id"], name="idem_redrive_state")],
            },
        ),
        compared_by_bytes(["FailedJob", "HourlyCount", "RedriveOperation"]),
    ]
