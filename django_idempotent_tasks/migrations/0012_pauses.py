"""The pauses: tasks whose calls wait in the ledger until a person resumes them, or the pause ends."""

from django.db import migrations, models

from ._bytes import compared_by_bytes


class Migration(migrations.Migration):
    dependencies = [
        ("django_idempotent_tasks", "0011_hourly_durations"),
    ]

    operations = [
        migrations.CreateModel(
            name="Pause",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("task", models.CharField(max_length=255)),
                ("scope", models.CharField(blank=True, max_length=120)),
                ("reason", models.CharField(max_length=500)),
                ("paused_by", models.CharField(max_length=150)),
                ("since", models.DateTimeField()),
                ("until", models.DateTimeField()),
                ("held_at", models.DateTimeField()),
                ("rate", models.IntegerField()),
                ("resumed_at", models.DateTimeField(null=True)),
                ("resumed_by", models.CharField(max_length=150, null=True)),
                ("drained_at", models.DateTimeField(null=True)),
            ],
            options={
                "verbose_name": "pause",
                "permissions": [("pause_task", "Can pause and resume tasks")],
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["drained_at", "task"], name="idem_pause_drained")],
            },
        ),
        compared_by_bytes(["Pause"]),
    ]
