"""The workers: what each says about itself while it lives, so that people see names."""

from django.db import migrations, models

from ._bytes import compared_by_bytes


class Migration(migrations.Migration):
    dependencies = [
        ("django_idempotent_tasks", "0009_follow_ups"),
    ]

    operations = [
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("instance", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=255)),
                ("host", models.CharField(max_length=255)),
                ("pid", models.IntegerField()),
                ("pool", models.CharField(max_length=80)),
                ("concurrency", models.IntegerField()),
                ("queues", models.TextField()),
                ("tasks", models.TextField()),
                ("version", models.CharField(max_length=40)),
                ("started_at", models.DateTimeField()),
                ("seen_at", models.DateTimeField()),
                ("stopped_at", models.DateTimeField(null=True)),
            ],
            options={
                "verbose_name": "worker",
                "default_permissions": (),
            },
        ),
        compared_by_bytes(["Worker"]),
    ]
