"""A project in which everything is wrong that settings and tasks can get wrong."""

from __future__ import annotations

from tests.operations.doctor.ill.app import app

__all__ = ["app"]
