"""How far beat has come."""

from django.db import migrations, models

from ._bytes import compared_by_bytes


class Migration(migrations.Migration):
    dependencies = [
        ("django_idempotent_tasks", "0003_failures"),
    ]

    operations = [
        migrations.CreateModel(
            name="BeatCursor",
            fields=[
                ("periodic_task_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("last_due_at", models.DateTimeField(null=True)),
                ("schedule", models.CharField(max_length=64)),
                ("last_digest", models.UUIDField(null=True)),
                ("updated_at", models.DateTimeField()),
            ],
            options={
                "verbose_name": "beat cursor",
            },
        ),
        compared_by_bytes(["BeatCursor"]),
    ]
