"""What the charges of tenants come to."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Add the table of totals."""

    dependencies = [
        ("payments", "0002_received_events"),
    ]

    operations = [
        migrations.CreateModel(
            name="Total",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("currency", models.CharField(max_length=3)),
                ("charges", models.PositiveIntegerField()),
                ("amount", models.DecimalField(decimal_places=2, max_digits=14)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "tenant",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="payments.tenant"),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "currency"), name="one_total_per_currency")
                ],
            },
        ),
    ]
