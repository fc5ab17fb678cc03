"""On MariaDB or MySQL, in a worker process: a transaction left open costs no later call of that child."""

from __future__ import annotations

import pytest

from tests.processes.prefork import test_left_open_in_a_child as promises
from tests.services.mysql.server import mark
from tests.services.mysql.test_killed_children import site
from tests.support.workers.site import Site
from tests.support.workers.sites import keeping_worker

__all__ = ["site"]

pytestmark = [mark, pytest.mark.process]


def test_what_bodies_leave_open_is_rolled_back_and_costs_no_later_call(site: Site) -> None:
    with keeping_worker(site, "leaving-mysql", MYSQL_URL=""):
        for number, how in enumerate(promises.HOW):
            promises.test_a_leased_body_that_leaves_a_transaction_open_has_failed_and_the_next_calls_are_committed(
                site, f"leased-{number}", how
            )
            promises.test_a_task_that_nothing_guards_leaves_no_transaction_to_the_calls_after_it(
                site, f"plain-{number}", how
            )
