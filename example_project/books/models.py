"""What the periodic jobs write, without unique constraints: a count proves or refutes that each ran once."""

from __future__ import annotations

from django.db import models

from example_project.payments.models import Tenant


class JobRun(models.Model):
    """One run of a periodic job, written in the transaction that does its work."""

    job = models.CharField(max_length=100)
    due_at = models.DateTimeField()
    outcome = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-due_at",)

    def __str__(self) -> str:
        return f"{self.job} of {self.due_at:%Y-%m-%d %H:%M:%S}"


class Reconciliation(models.Model):
    """A comparison of one tenant's charges, here and at the gateway."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    due_at = models.DateTimeField()
    agreed = models.PositiveIntegerField()
    only_here = models.PositiveIntegerField()
    only_at_gateway = models.PositiveIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-due_at", "tenant")

    def __str__(self) -> str:
        return f"{self.tenant_id} of {self.due_at:%Y-%m-%d %H:%M:%S}"


class Reminder(models.Model):
    """A message to a tenant about payments that are still pending."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT)
    text = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    def __str__(self) -> str:
        return self.text
