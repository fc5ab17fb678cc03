"""Commands and beats as processes beside real workers."""

from __future__ import annotations

from tests.processes.prefork.conftest import _clean, key, own_site, pytest_runtest_makereport, site

__all__ = ["_clean", "key", "own_site", "pytest_runtest_makereport", "site"]
