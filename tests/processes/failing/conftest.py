"""Real workers, whose tasks fail; everything else is as where workers die."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.workers.processes import Worker
from tests.support.workers.site import Site
from tests.support.workers.sites import _clean, key, own_site, site

__all__ = ["_clean", "key", "own_site", "site"]


@pytest.fixture(scope="package")
def _crew(site: Site) -> Iterator[Worker]:
    parts = {"PROJ_IDEMPOTENT_TASKS": json.dumps({"REPUBLISH_AFTER": 60})}
    worker = site.worker("crew", "--concurrency", "2", **parts)
    yield worker
    worker.kill()


@pytest.fixture
def crew(_crew: Worker) -> Worker:
    """A living worker with two children, shared with other tests."""
    return _crew if _crew.is_alive else _crew.start()
