"""The same surroundings as where workers die with leased tasks."""

from __future__ import annotations

from tests.death.conftest import (  # noqa: F401  fixtures and the hook that shows the workers' logs
    _clean,
    _family,
    family,
    key,
    own_site,
    pytest_runtest_makereport,
    site,
)
