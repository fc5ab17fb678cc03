"""The dashboard has a line of its own on the admin's first page."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("django_idempotent_tasks", "0005_beat_overview"),
    ]

    operations = [
        migrations.CreateModel(
            name="Dashboard",
            fields=[],
            options={
                "verbose_name": "dashboard",
                "verbose_name_plural": "dashboard",
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("django_idempotent_tasks.hourlycount",),
        ),
    ]
