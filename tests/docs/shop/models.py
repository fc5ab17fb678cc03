"""What the examples write."""

from __future__ import annotations

from django.db import models


class Account(models.Model):
    """Holds money, in cents."""

    tenant = models.CharField(max_length=100)
    balance = models.BigIntegerField(default=0)


class Order(models.Model):
    """Somebody wants something."""

    total = models.DecimalField(max_digits=9, decimal_places=2)


class Payment(models.Model):
    """An order was paid for."""

    order_id = models.BigIntegerField()
    reference = models.CharField(max_length=100)


class Event(models.Model):
    """A provider told of something."""

    tenant = models.CharField(max_length=100)
    provider_id = models.CharField(max_length=100)
    body = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tenant", "provider_id"], name="event_once")]


class Product(models.Model):
    """Something to sell."""

    sku = models.CharField(max_length=40, unique=True)
    price = models.DecimalField(max_digits=9, decimal_places=2)


class Letter(models.Model):
    """An issue that a customer gets."""

    customer = models.IntegerField()
    issue = models.CharField(max_length=40)
