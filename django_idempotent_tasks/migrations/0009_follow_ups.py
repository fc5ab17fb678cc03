"""The follow-ups: calls that came while their key's call ran, and that are run after it."""

from django.db import migrations, models

from ._bytes import compared_by_bytes


class Migration(migrations.Migration):
    dependencies = [
        ("django_idempotent_tasks", "0008_batches"),
    ]

    operations = [
        migrations.CreateModel(
            name="FollowUp",
            fields=[
                ("digest", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("due_at", models.DateTimeField()),
                ("created_at", models.DateTimeField()),
                ("task", models.CharField(max_length=255)),
                ("scope", models.CharField(max_length=120, null=True)),
                ("key_text", models.CharField(max_length=255, verbose_name="key")),
                ("task_id", models.CharField(max_length=255)),
                ("fingerprint", models.UUIDField(null=True)),
                ("message", models.TextField()),
            ],
            options={
                "verbose_name": "follow-up",
                "default_permissions": (),
                "indexes": [models.Index(fields=["task_id"], name="idem_follow_up_task_id")],
            },
        ),
        compared_by_bytes(["FollowUp"]),
    ]
