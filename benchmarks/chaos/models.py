"""What the bodies of a chaos run leave behind. Nothing keeps a row from being written twice."""

from __future__ import annotations

from typing import ClassVar, Self

from django.db import models


class Effect(models.Model):
    """One effect in the ledger's database."""

    id = models.BigAutoField(primary_key=True)
    key = models.CharField(max_length=80, db_index=True, db_column="work")
    part = models.CharField(max_length=40)
    token = models.IntegerField()

    objects: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        app_label = "chaos"

    def __str__(self) -> str:
        return f"{self.key} {self.part}"


class Charge(models.Model):
    """One request to a provider that honours downstream keys: it charges once for each of them."""

    id = models.BigAutoField(primary_key=True)
    key = models.CharField(max_length=80, db_index=True, db_column="work")
    downstream = models.CharField(max_length=80)

    objects: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        app_label = "chaos"

    def __str__(self) -> str:
        return f"{self.key} {self.downstream}"


class Change(models.Model):
    """Something that a caller changed, in the transaction of its call."""

    id = models.BigAutoField(primary_key=True)
    key = models.CharField(max_length=80, db_index=True, db_column="work")

    objects: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        app_label = "chaos"

    def __str__(self) -> str:
        return self.key


class Seen(models.Model):
    """How many changes of a key its last body has seen."""

    key = models.CharField(max_length=80, primary_key=True, db_column="work")
    changes = models.IntegerField()

    objects: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        app_label = "chaos"

    def __str__(self) -> str:
        return f"{self.key} {self.changes}"


class Sent(models.Model):
    """A call that a sender has made; of a reserved one in the transaction that reserved it."""

    name = models.CharField(max_length=40, primary_key=True)
    key = models.CharField(max_length=80, db_index=True, db_column="work")
    times = models.IntegerField(default=1)

    objects: ClassVar[models.Manager[Self]] = models.Manager()

    class Meta:
        app_label = "chaos"

    def __str__(self) -> str:
        return self.name
