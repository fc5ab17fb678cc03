"""The two databases of the crash tests."""

from __future__ import annotations

import pytest

from tests.support.batches import desk
from tests.support.deliveries import alias, careless_sqlite, need_postgresql

__all__ = ["alias", "careless_sqlite", "desk"]


@pytest.fixture
def postgresql(transactional_db: None) -> str:  # noqa: ARG001
    """The alias of PostgreSQL."""
    need_postgresql()
    return "default"
