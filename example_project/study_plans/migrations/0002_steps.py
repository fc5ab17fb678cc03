"""The ledger keeps the steps of a generation: a plan needs no reference and no token of its own."""

from django.db import migrations


class Migration(migrations.Migration):
    """Forget both."""

    dependencies = [
        ("study_plans", "0001_study_plans"),
    ]

    operations = [
        migrations.RemoveField(model_name="studyplan", name="reference"),
        migrations.RemoveField(model_name="studyplan", name="token"),
    ]
