"""The table of effects."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """Creates it."""

    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel(
            name="Effect",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("key", models.CharField(max_length=255)),
                ("attempt", models.IntegerField()),
                ("token", models.IntegerField()),
                ("note", models.CharField(default="", max_length=255)),
            ],
        ),
    ]
