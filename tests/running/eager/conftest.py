"""An app that runs every task where it is called."""

from __future__ import annotations

import pytest
from django.db import connection

from tests.support.deliveries import APPS, till
from tests.support.eager import app

__all__ = ["app", "till"]

COMMITTING = pytest.mark.django_db(transaction=True, available_apps=APPS)


@pytest.fixture(
    params=[
        pytest.param(True, marks=pytest.mark.django_db, id="in a TestCase"),
        pytest.param(False, marks=COMMITTING, id="outside a transaction"),
    ]
)
def _twice(request: pytest.FixtureRequest) -> None:
    """Run a test in an open transaction and again without one."""
    assert connection.in_atomic_block is request.param
