"""Two workers that all tests here share, where they meet the tests, and clean tables for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.workers.reserving import sending_to
from tests.support.workers.site import Pair, Site
from tests.support.workers.sites import _clean, key, own_site, pair, site

__all__ = ["_clean", "key", "own_site", "pair", "site"]


@pytest.fixture(scope="package")
def _pair(site: Site) -> Iterator[Pair]:
    both = site.pair()
    yield both
    both.kill()


@pytest.fixture
def _sending(own_site: Site) -> Iterator[None]:
    """This process reserves in the module's own database and sends to its queue."""
    with sending_to(own_site):
        yield
