"""The ledger on either database, an app of its own for each test, and a router that leads astray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.running.connections.levels import isolated, rival
from tests.support.deliveries import alias, postgresql, shop, till, watching
from tests.support.ledger.quick import careless_sqlite

if TYPE_CHECKING:
    from pytest_django import Settings

__all__ = [
    "alias",
    "careless_sqlite",
    "isolated",
    "postgresql",
    "rival",
    "shop",
    "till",
    "watching",
]


class Astray:
    """Sends every use of the ledger's tables, by who does not name a database, to where there is none."""

    def db_for_read(self, model: Any, **_hints: Any) -> str | None:
        return "nowhere" if model._meta.app_label == "django_idempotent_tasks" else None

    db_for_write = db_for_read


@pytest.fixture
def astray(settings: Settings) -> None:
    """Such a router, as a project with replicas or several databases has one."""
    settings.DATABASE_ROUTERS = [Astray()]
