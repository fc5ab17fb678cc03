"""The values of the steps of long tasks."""

from django.db import migrations, models

from ._bytes import compared_by_bytes


class Migration(migrations.Migration):
    dependencies = [
        ("django_idempotent_tasks", "0006_dashboard"),
    ]

    operations = [
        migrations.CreateModel(
            name="Step",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("digest", models.UUIDField()),
                ("generation", models.IntegerField()),
                ("name", models.CharField(max_length=100)),
                ("token", models.IntegerField()),
                ("attempt", models.SmallIntegerField()),
                ("started_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField()),
                ("value", models.TextField(null=True)),
            ],
            options={
                "verbose_name": "step",
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=("digest", "generation", "name"), name="idem_step_once"),
                ],
            },
        ),
        compared_by_bytes(["Step"]),
    ]
