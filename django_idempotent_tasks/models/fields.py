"""Defines the column type of every moment in the ledger's tables."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import models
from django.utils import timezone


class _MomentField(models.DateTimeField):  # type: ignore[type-arg]  # generic in the stubs only
    """Django's column; without USE_TZ, PostgreSQL gets a local time together with its offset.

    PostgreSQL's columns are moments. The session converts a local time in a parameter: in an hour that
    comes twice always as the second round, so that a moment of the first round equals no row that has it.
    A moment that is read says by ``fold`` which round it is of.
    """

    def deconstruct(self) -> Any:
        """As Django's own field: the column is the same, and needs no migration."""
        name, _path, arguments, named = super().deconstruct()
        return name, "django.db.models.DateTimeField", arguments, named

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:  # noqa: FBT001, FBT002  Django's own
        if not prepared:
            value = self.get_prep_value(value)
        if (
            isinstance(value, datetime)
            and timezone.is_naive(value)
            and connection.features.supports_timezones
        ):
            value = timezone.make_aware(value, timezone.get_default_timezone())
        return super().get_db_prep_value(value, connection, prepared=True)


#: Converts parameters of statements that no model writes.
MOMENT = _MomentField()

if TYPE_CHECKING:
    MomentField = models.DateTimeField  # generic in the stubs, which know what NULL means for its type
else:
    MomentField = _MomentField
