"""The tables of the ledger. They fix the app label and the table names for good."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Leader",
            fields=[
                ("name", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("holder", models.CharField(max_length=120)),
                ("token", models.IntegerField()),
                ("since", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
            ],
            options={
                "verbose_name": "leader",
            },
        ),
        migrations.CreateModel(
            name="AnsweredCall",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("digest", models.UUIDField()),
                ("task_id", models.CharField(max_length=255)),
                ("generation", models.IntegerField()),
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
                ("reason", models.SmallIntegerField()),
                ("result", models.TextField(null=True)),
                ("due_at", models.DateTimeField()),
            ],
            options={
                "verbose_name": "answered call",
                "indexes": [models.Index(fields=["due_at"], name="idem_answered_due")],
                "constraints": [
                    models.UniqueConstraint(fields=("task_id", "digest"), name="idem_answered_call")
                ],
            },
        ),
        migrations.CreateModel(
            name="DuplicateAttempt",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("digest", models.UUIDField()),
                ("scope", models.CharField(max_length=120, null=True)),
                ("task_id", models.CharField(max_length=255)),
                ("place", models.CharField(max_length=16)),
                ("reason", models.CharField(max_length=32)),
                ("at", models.DateTimeField()),
                ("summed", models.BooleanField(default=False)),
            ],
            options={
                "verbose_name": "duplicate attempt",
                "indexes": [
                    models.Index(fields=["digest"], name="idem_duplicate_digest"),
                    models.Index(fields=["summed", "id"], name="idem_duplicate_summed"),
                ],
            },
        ),
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                ("digest", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("due_at", models.DateTimeField(null=True)),
                ("open_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("token", models.IntegerField()),
                ("generation", models.IntegerField()),
                ("lease_seconds", models.IntegerField()),
                ("duplicates", models.IntegerField()),
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
                ("reason", models.SmallIntegerField()),
                ("attempts", models.SmallIntegerField()),
                ("crashes", models.SmallIntegerField()),
                ("sends", models.SmallIntegerField()),
                ("in_external", models.BooleanField()),
                ("task", models.CharField(max_length=255)),
                ("scope", models.CharField(max_length=120, null=True)),
                ("key_text", models.CharField(max_length=255, verbose_name="key")),
                ("task_id", models.CharField(max_length=255)),
                ("runner_task_id", models.CharField(max_length=255, null=True)),
                ("owner", models.CharField(max_length=80, null=True)),
                ("fingerprint", models.UUIDField(null=True)),
                ("category", models.SmallIntegerField(null=True)),
                ("signature", models.CharField(max_length=16, null=True)),
                ("discarded_at", models.DateTimeField(null=True)),
                ("progress", models.CharField(max_length=400, null=True)),
                ("message", models.TextField(null=True)),
                ("result", models.TextField(null=True)),
            ],
            options={
                "verbose_name": "idempotency key",
                "indexes": [
                    models.Index(fields=["state", "due_at"], name="idem_key_state_due"),
                    models.Index(fields=["task_id"], name="idem_key_task_id"),
                    models.Index(fields=["created_at"], name="idem_key_created"),
                    models.Index(
                        condition=models.Q(("discarded_at__isnull", True), ("signature__isnull", False)),
                        fields=["signature", "finished_at"],
                        name="idem_key_dead_letters",
                    ),
                ],
            },
        ),
    ]
