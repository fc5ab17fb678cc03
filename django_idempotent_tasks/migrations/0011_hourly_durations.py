"""How long runs took and calls waited, in the hourly counts. An hour counted before has none of it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_idempotent_tasks", "0010_workers"),
    ]

    operations = [
        *(
            migrations.AddField("hourlycount", f"{kind}_{name}", field)
            for kind in ("run", "wait")
            for name, field in (
                ("count", models.IntegerField(db_default=0)),
                ("seconds", models.FloatField(db_default=0.0)),
                ("max", models.FloatField(db_default=0.0)),
                ("buckets", models.CharField(max_length=255, null=True)),
            )
        ),
        migrations.AddField("hourlycount", "last_failure_at", models.DateTimeField(null=True)),
    ]
