"""What is true of a key whose body ran once."""

from __future__ import annotations

from django_idempotent_tasks.states import State
from tests.support.workers.site import Site


def assert_ran_once(site: Site, *keys: str) -> None:
    """Each has succeeded by its first attempt, with one effect, and its owner never crashed."""
    for key in keys:
        row = site.rows.wait_for(key, State.SUCCEEDED)
        assert (row.attempts, row.token, row.crashes) == (1, 1, 0)
        assert site.journal.starts(key) == 1
        assert len(site.rows.effects(key)) == 1
