"""For tests on MariaDB and MySQL: a module that imports this is skipped, aloud, where there is none."""

from __future__ import annotations

import pytest
from django.conf import settings

from tests.services.mysql.conftest import ALIAS

__all__ = ["ALIAS", "mark"]

if ALIAS not in settings.DATABASES:
    pytest.skip("MYSQL_URL names no MariaDB or MySQL", allow_module_level=True)

mark = pytest.mark.django_db(
    transaction=True, databases=["default", ALIAS], available_apps=["django_idempotent_tasks", "tests.sample"]
)
