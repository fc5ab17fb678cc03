"""When a failed attempt began, so that people see how long it ran; who may have a retry run now."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_idempotent_tasks", "0012_pauses"),
    ]

    operations = [
        migrations.AddField(
            model_name="failedjob",
            name="started_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AlterModelOptions(
            name="idempotencykey",
            options={
                "permissions": [
                    ("release_key", "Can take a key from its holder"),
                    ("cancel_key", "Can cancel keys"),
                    ("retry_key", "Can have a waiting retry run now"),
                ],
                "verbose_name": "idempotency key",
            },
        ),
    ]
