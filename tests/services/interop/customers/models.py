"""Tenants of django-tenants, each with a schema that the tests make."""

from __future__ import annotations

from django.db import models
from django_tenants.models import DomainMixin, TenantMixin


class Client(TenantMixin):  # type: ignore[misc]  # it ships no types
    """A tenant."""

    auto_create_schema = False
    name = models.CharField(max_length=20)

    def __str__(self) -> str:
        return self.name


class Domain(DomainMixin):  # type: ignore[misc]  # it ships no types
    """Where a tenant is reached; django-tenants wants the model."""
