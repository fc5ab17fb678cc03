"""How many calls of an hour ran in shadow mode that the guard would refuse. An hour counted before has none."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_idempotent_tasks", "0013_attempt_starts"),
    ]

    operations = [
        migrations.AddField("hourlycount", "would_refuse", models.IntegerField(db_default=0)),
    ]
