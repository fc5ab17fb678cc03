"""The tables of events, uploads, registrations and badges."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Make them."""

    initial = True

    dependencies = [
        ("payments", "0002_received_events"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Event",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("title", models.CharField(max_length=100)),
                ("currency", models.CharField(default="EUR", max_length=3)),
                ("organisers", models.ManyToManyField(blank=True, to=settings.AUTH_USER_MODEL)),
                (
                    "tenant",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="payments.tenant"),
                ),
            ],
            options={
                "ordering": ("title", "pk"),
            },
        ),
        migrations.CreateModel(
            name="Registration",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("line", models.PositiveIntegerField()),
                ("reference", models.CharField(max_length=60)),
                ("email", models.CharField(max_length=254)),
                ("name", models.CharField(max_length=100)),
                ("quantity", models.PositiveSmallIntegerField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("accepted_at", models.DateTimeField(null=True)),
                ("paid_at", models.DateTimeField(null=True)),
                (
                    "event",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="registrations.event"),
                ),
            ],
            options={
                "ordering": ("pk",),
            },
        ),
        migrations.CreateModel(
            name="Badge",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("sheet", models.PositiveIntegerField()),
                ("attempt", models.PositiveSmallIntegerField()),
                ("printed_at", models.DateTimeField(auto_now_add=True)),
                (
                    "registration",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, to="registrations.registration"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Ticket",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("code", models.SlugField(max_length=20)),
                ("price", models.DecimalField(decimal_places=2, max_digits=8)),
                ("places", models.PositiveIntegerField()),
                ("by_debit", models.BooleanField(default=False)),
                (
                    "event",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tickets",
                        to="registrations.event",
                    ),
                ),
            ],
            options={
                "ordering": ("pk",),
            },
        ),
        migrations.AddField(
            model_name="registration",
            name="ticket",
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="registrations.ticket"),
        ),
        migrations.CreateModel(
            name="Upload",
            fields=[
                (
                    "id",
                    models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False),
                ),
                ("digest", models.CharField(max_length=64)),
                ("name", models.CharField(max_length=100)),
                ("rows", models.PositiveIntegerField()),
                ("by", models.CharField(max_length=150)),
                ("sent_at", models.DateTimeField(auto_now_add=True)),
                ("batch", models.UUIDField(editable=False, null=True)),
                (
                    "event",
                    models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="registrations.event"),
                ),
            ],
            options={
                "ordering": ("-sent_at",),
            },
        ),
        migrations.AddField(
            model_name="registration",
            name="upload",
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, to="registrations.upload"),
        ),
        migrations.AddConstraint(
            model_name="ticket",
            constraint=models.UniqueConstraint(fields=("event", "code"), name="one_ticket_per_code"),
        ),
        migrations.AddConstraint(
            model_name="upload",
            constraint=models.UniqueConstraint(fields=("event", "digest"), name="one_upload_per_file"),
        ),
        migrations.AddIndex(
            model_name="registration",
            index=models.Index(fields=["paid_at", "created_at"], name="registration_unpaid"),
        ),
        migrations.AddConstraint(
            model_name="registration",
            constraint=models.UniqueConstraint(
                fields=("event", "email"), name="one_registration_per_attendee"
            ),
        ),
        migrations.AddConstraint(
            model_name="registration",
            constraint=models.UniqueConstraint(fields=("reference",), name="one_registration_per_row"),
        ),
    ]
