"""The inbox of accepted webhooks."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Add the table of accepted events."""

    dependencies = [("payments", "0001_payments_charges_notifications")]

    operations = [
        migrations.CreateModel(
            name="ReceivedEvent",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("event_id", models.CharField(max_length=100)),
                ("payment_id", models.CharField(max_length=100)),
                ("task_id", models.CharField(max_length=255)),
                ("received_at", models.DateTimeField(auto_now_add=True)),
                (
                    "tenant",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="payments.tenant"),
                ),
            ],
            options={
                "ordering": ("-received_at",),
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "event_id"), name="one_row_per_event")
                ],
            },
        ),
    ]
