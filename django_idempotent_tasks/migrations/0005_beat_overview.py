"""What people want to know of periodic tasks: what comes next, what ran, what was passed over."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_idempotent_tasks", "0004_beat_cursor"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="beatcursor",
            options={
                "permissions": [("run_periodic", "Can run a periodic task now")],
                "verbose_name": "beat cursor",
                "verbose_name_plural": "periodic runs",
            },
        ),
        migrations.AddField("beatcursor", "next_due_at", models.DateTimeField(null=True)),
        migrations.AddField("beatcursor", "recent", models.TextField(null=True)),
        migrations.AddField("beatcursor", "passed_over", models.IntegerField(default=0, db_default=0)),
        migrations.AddField("beatcursor", "passed_over_at", models.DateTimeField(null=True)),
        migrations.AddField("beatcursor", "ran_at", models.DateTimeField(null=True)),
        migrations.AddField("beatcursor", "stranger_at", models.DateTimeField(null=True)),
        migrations.AddIndex("beatcursor", models.Index(fields=["next_due_at"], name="idem_beat_next_due")),
        migrations.AddIndex("beatcursor", models.Index(fields=["stranger_at"], name="idem_beat_stranger")),
    ]
