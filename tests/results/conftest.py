"""A desk with results on each database that this machine has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings

from tests.results.desk import Desk, Router
from tests.support.ledger.quick import careless_sqlite

__all__ = ["careless_sqlite"]


def _on(alias: str) -> Any:
    """A parameter for one database, with the mark that sets it up."""
    apps = ["django_celery_results", "django_idempotent_tasks"]
    mark = pytest.mark.django_db(transaction=True, databases=["default", alias], available_apps=apps)
    return pytest.param(alias, marks=mark)


@pytest.fixture(params=[_on(a) for a in ("default", "sqlite", "mysql") if a in django_settings.DATABASES])
def alias(request: pytest.FixtureRequest, settings: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """The database with the results."""
    name: str = request.param
    monkeypatch.setattr(Router, "alias", name)
    settings.DATABASE_ROUTERS = ["tests.results.desk.Router"]
    return name


@pytest.fixture
def desk(alias: str) -> Iterator[Desk]:  # noqa: ARG001  its results are there
    with Desk().open() as desk:
        yield desk
