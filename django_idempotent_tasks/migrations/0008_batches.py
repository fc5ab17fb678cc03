"""Batches, their chunks, and the records of them that failed."""

from django.db import migrations, models

from ._bytes import compared_by_bytes


class Migration(migrations.Migration):
    dependencies = [
        ("django_idempotent_tasks", "0007_steps"),
    ]

    operations = [
        migrations.CreateModel(
            name="Batch",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("created_at", models.DateTimeField()),
                ("sealed_at", models.DateTimeField(null=True)),
                ("attention_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("called_at", models.DateTimeField(null=True)),
                ("due_at", models.DateTimeField(null=True)),
                (
                    "state",
                    models.SmallIntegerField(
                        choices=[
                            (1, "submitting"),
                            (2, "running"),
                            (3, "needs attention"),
                            (4, "finished"),
                            (5, "cancelled"),
                        ]
                    ),
                ),
                ("revision", models.IntegerField()),
                ("task", models.CharField(max_length=255)),
                ("scope", models.CharField(max_length=120, null=True)),
                ("key_text", models.CharField(max_length=255, verbose_name="key")),
                ("chunk_size", models.IntegerField()),
                ("records", models.IntegerField()),
                ("chunks", models.IntegerField()),
                ("reason", models.CharField(max_length=500, null=True)),
                ("cancelled_by", models.CharField(max_length=150, null=True)),
                ("callback", models.TextField(null=True)),
                ("on_attention", models.TextField(null=True)),
                ("template", models.TextField(null=True)),
            ],
            options={
                "verbose_name": "batch",
                "verbose_name_plural": "batches",
                "permissions": [
                    ("cancel_batch", "Can cancel batches"),
                    ("redrive_batch", "Can redrive batches"),
                ],
                "indexes": [
                    models.Index(fields=["state", "created_at"], name="idem_batch_state_created"),
                    models.Index(fields=["due_at"], name="idem_batch_due"),
                ],
            },
        ),
        migrations.CreateModel(
            name="BatchChunk",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("batch_id", models.UUIDField()),
                ("place", models.IntegerField()),
                ("digest", models.UUIDField()),
                ("task_id", models.CharField(max_length=255)),
                ("first", models.IntegerField()),
                ("size", models.IntegerField()),
                ("indexes", models.TextField(null=True)),
                ("fingerprint", models.UUIDField()),
                ("token", models.IntegerField()),
                (
                    "state",
                    models.SmallIntegerField(
                        choices=[
                            (1, "open"),
                            (2, "ended"),
                            (3, "needs attention"),
                            (4, "discarded"),
                            (5, "cancelled"),
                        ]
                    ),
                ),
                ("outcomes", models.TextField()),
            ],
            options={
                "verbose_name": "chunk",
                "default_permissions": (),
                "indexes": [
                    models.Index(fields=["digest"], name="idem_chunk_digest"),
                    models.Index(fields=["state", "batch_id", "place"], name="idem_chunk_state"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("batch_id", "place"), name="idem_chunk_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="BatchRecord",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("batch_id", models.UUIDField()),
                ("index", models.IntegerField(db_column="record_index")),
                ("place", models.IntegerField()),
                ("category", models.SmallIntegerField()),
                ("attempt", models.SmallIntegerField()),
                ("at", models.DateTimeField()),
                ("error", models.CharField(max_length=255)),
                ("description", models.TextField()),
                ("signature", models.CharField(max_length=16)),
                ("value", models.TextField(null=True)),
            ],
            options={
                "verbose_name": "failed record",
                "default_permissions": (),
                "indexes": [
                    models.Index(fields=["batch_id", "category", "signature"], name="idem_record_signature")
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("batch_id", "index"), name="idem_record_once")
                ],
            },
        ),
        compared_by_bytes(["Batch", "BatchChunk", "BatchRecord"]),
    ]
